#!/usr/bin/env python3
"""Turns a GGUF file into a folder as Hugging Face has them: what quantises checkpoints takes safetensors.

    python3 scripts/convert_gguf.py MODEL.gguf OUT [--dtype f16]

Blocks are dequantised, so the folder holds the numbers that the file stands for, rounded to `--dtype`: f16 keeps them to
eleven bits, f32 exactly. OUT is a new folder with config.json, model.safetensors and tokenizer.json. Needs torch,
transformers, gguf and accelerate (pip install torch transformers gguf accelerate); nothing is downloaded.
"""

import argparse
import json
import os
import sys
from pathlib import Path


def fail(message):
    sys.exit(f"convert_gguf: {message}")


def load_libraries():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import gguf
        import tokenizers
        import torch
        import transformers
    except ImportError as error:
        fail(f"this needs {error.name}, which is not installed; pip install torch transformers gguf accelerate")
    return gguf, tokenizers, torch, transformers


def metadata_of(gguf, path, key):
    field = gguf.GGUFReader(path).fields.get(key)
    return field.contents() if field is not None else None


def write_tokenizer(gguf, tokenizers, tokenizer, path, folder):
    """As the file has it: transformers' loader forgets that SmolLM cuts every digit off, and begins each text with <s>."""
    backend = tokenizer.backend_tokenizer
    parts = tokenizers.pre_tokenizers
    if metadata_of(gguf, path, "tokenizer.ggml.pre") == "smollm" and "Digits" not in str(backend.pre_tokenizer):
        backend.pre_tokenizer = parts.Sequence([parts.Digits(individual_digits=True), backend.pre_tokenizer])
    if metadata_of(gguf, path, "tokenizer.ggml.model") == "gpt2" and not metadata_of(
            gguf, path, "tokenizer.ggml.add_bos_token"):
        backend.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    backend.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokenizer.bos_token,
              "eos_token": tokenizer.eos_token}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make")
    parser.add_argument("--dtype", choices=["f16", "bf16", "f32"], default="f16", help="of the weights; default f16")
    args = parser.parse_args()
    if not args.model.is_file():
        fail(f"there is no file {args.model}")
    if args.out.exists():
        fail(f"{args.out} is there already; name another folder")
    gguf, tokenizers, torch, transformers = load_libraries()
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[args.dtype]
    where = {"pretrained_model_name_or_path": args.model.parent, "gguf_file": args.model.name, "local_files_only": True}
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=dtype)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    except (OSError, ValueError, KeyError) as error:
        fail(f"transformers {transformers.__version__} does not read {args.model}: {error}")
    model.save_pretrained(args.out)
    write_tokenizer(gguf, tokenizers, tokenizer, args.model, args.out)
    print(f"{sum(parameter.numel() for parameter in model.parameters())} parameters in {args.dtype} -> {args.out}")


if __name__ == "__main__":
    main()
