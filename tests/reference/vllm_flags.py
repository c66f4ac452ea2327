"""Reads commands of `vllm serve` from stdin, a JSON list of lists of words, and has vLLM's own parser look at each.

Prints one JSON object: {"version": ..., "errors": [[words, message], ...]}. Exit status 3: there is no vLLM.
"""

import contextlib
import io
import json
import os
import sys

# Standard output is for the answer alone.
os.environ["VLLM_LOGGING_STREAM"] = "ext://sys.stderr"

try:
    import vllm
    from vllm.entrypoints.openai.cli_args import make_arg_parser
except ImportError as error:
    print(error)
    sys.exit(3)

try:
    from vllm.utils.argparse_utils import FlexibleArgumentParser
except ImportError:
    from vllm.utils import FlexibleArgumentParser


def complaint(words):
    """What the parser says against the words behind `vllm serve`; None where nothing."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            make_arg_parser(FlexibleArgumentParser()).parse_args(words)
    except SystemExit:
        return said.getvalue().strip()
    return None


commands = json.load(sys.stdin)
errors = [[words, complaint(words)] for words in commands]
print(json.dumps({"version": vllm.__version__, "errors": [e for e in errors if e[1] is not None]}))
