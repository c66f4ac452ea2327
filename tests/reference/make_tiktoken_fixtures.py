"""Writes small vocabularies in tiktoken's form, Llama 3's tokenizer.model and Mistral's tekken.json, and what the
`tiktoken` package makes of the texts of make_tokenizer_fixtures.py.

    python3 -m venv venv && venv/bin/pip install tiktoken regex
    venv/bin/python tests/reference/make_tiktoken_fixtures.py tests/reference/tokenizers scripts/tessera/man/serving.md

The second file is what the vocabularies are trained on. The tests read the results without Python.
"""

import base64
import json
import pathlib
import sys

import tiktoken
from tiktoken._educational import bpe_train

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TOKENS = 480


def texts(folder):
    content = json.loads((folder / "texts.json").read_text())
    return content["texts"] + [bytes(text).decode(errors="replace") for text in content["invalid"]]


def answers(folder, ranks, specials, pattern, bos, control):
    encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=specials)
    found = {"ids": [], "plain": [], "decoded": [], "skipped": []}
    for text in texts(folder.parent):
        plain = encoding.encode(text, allowed_special="all")
        ids = [bos] + plain
        decoded = encoding.decode_bytes(ids).decode(errors="replace")
        skipped = encoding.decode_bytes([token for token in ids if token not in control]).decode(errors="replace")
        for key, value in {"ids": ids, "plain": plain, "decoded": decoded, "skipped": skipped}.items():
            found[key].append(value)
    (folder / "answers.json").write_text(json.dumps(found, separators=(",", ":")))


def main(folder, trained_on):
    ranks = bpe_train(trained_on.read_text(), TOKENS, LLAMA3, visualise=None)
    target = folder / "tiktoken"
    target.mkdir(exist_ok=True)
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()]
    (target / "tokenizer.model").write_text("".join(lines))
    named = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 6: "<|start_header_id|>", 7: "<|end_header_id|>", 9: "<|eot_id|>"}
    reserved = iter(range(256))
    specials = {named.get(i) or f"<|reserved_special_token_{next(reserved)}|>": TOKENS + i for i in range(256)}
    answers(target, ranks, specials, LLAMA3, TOKENS, set(specials.values()))

    target = folder / "tekken"
    target.mkdir(exist_ok=True)
    names = ["<unk>", "<s>", "</s>", "[INST]", "[MASK]", "[CLS]"]
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for token, rank in ranks.items()]
    listed = [{"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(names)]
    config = {"pattern": TEKKEN, "num_vocab_tokens": TOKENS, "default_vocab_size": 410, "default_num_special_tokens": 10}
    content = {"config": config, "vocab": vocab, "special_tokens": listed}
    (target / "tekken.json").write_text(json.dumps(content, separators=(",", ":")))
    moved = {token: rank + 10 for token, rank in ranks.items() if rank < 400}
    specials = {name: i for i, name in enumerate(names + [f"<SPECIAL_{i}>" for i in range(6, 10)])}
    answers(target, moved, specials, TEKKEN, 1, set(specials.values()))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
