"""Decoder models by Hugging Face transformers, for the reference scripts beside this file.

Only local files are read; nothing is downloaded. Needs torch and transformers.
"""

import os
import re
import sys
from pathlib import Path

# What transformers calls a matrix, and what Tessera does. A fused matrix is several of ours.
NAMES = {
    "q_proj": ["q_proj"], "k_proj": ["k_proj"], "v_proj": ["v_proj"], "o_proj": ["o_proj"], "out_proj": ["o_proj"],
    "gate_proj": ["gate_proj"], "up_proj": ["up_proj"], "down_proj": ["down_proj"],
    "fc1": ["up_proj"], "fc2": ["down_proj"],
    "qkv_proj": ["q_proj", "k_proj", "v_proj"], "gate_up_proj": ["gate_proj", "up_proj"],
    "query_key_value": ["q_proj", "k_proj", "v_proj"], "self_attention.dense": ["o_proj"],
    "dense_h_to_4h": ["up_proj"], "dense_4h_to_h": ["down_proj"],
    "c_attn": ["q_proj", "k_proj", "v_proj"], "attn.c_proj": ["o_proj"], "c_fc": ["up_proj"],
    "mlp.c_proj": ["down_proj"],
    "w1": ["gate_proj"], "w3": ["up_proj"], "w2": ["down_proj"],
}
ORDER = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def import_torch():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        fail(f"this needs torch and transformers ({error}); pip install torch transformers")
    return torch, transformers


def load(folder):
    """The model in f32 and its tokenizer, from a folder of Hugging Face's."""
    torch, transformers = import_torch()
    transformers.utils.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, local_files_only=True, dtype=torch.float32, attn_implementation="eager")
    return model.eval(), tokenizer


def linears(model):
    """Every matrix of every decoder layer: (layer index, Tessera's names of it, module)."""
    found = []
    for name, module in model.named_modules():
        layer = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.(.+)$", name)
        if layer is None or getattr(module, "weight", None) is None or module.weight.dim() != 2:
            continue
        last_two = ".".join(layer.group(2).split(".")[-2:])
        names = NAMES.get(last_two) or NAMES.get(layer.group(2).split(".")[-1])
        if names is None:
            continue
        prefix = "experts." if ".experts." in name else ""
        found.append((int(layer.group(1)), [prefix + own for own in names], module))
    if not found:
        fail(f"no decoder layer of {type(model).__name__} was recognised; see NAMES in transformers_decoder.py")
    return sorted(found, key=lambda one: (one[0], ORDER.index(one[1][0].removeprefix("experts."))))


def samples(tokenizer, text, num_samples, num_tokens):
    """[num_samples, num_tokens] token ids: consecutive pieces of a text file."""
    torch, _ = import_torch()
    try:
        content = Path(text).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{text}: {error}")
    # Ten characters a token is more than any language's mean; the tokenizer need not see a whole book.
    ids = tokenizer(content[: 10 * num_samples * num_tokens], add_special_tokens=False)["input_ids"]
    if len(ids) < num_tokens:
        fail(f"{text} has {len(ids)} tokens, one sample takes {num_tokens}; give a longer --text or fewer --tokens")
    count = min(num_samples, len(ids) // num_tokens)
    return torch.tensor(ids[: count * num_tokens]).reshape(count, num_tokens)
