#!/usr/bin/env python3
"""Turns a PyTorch checkpoint (.bin, .pt, .pth) into safetensors, which the engine reads.

    python3 scripts/convert_checkpoint.py CHECKPOINT OUT [--shard-gib 4]

CHECKPOINT is a file or a folder of them; OUT is a new folder: model.safetensors, or shards with
model.safetensors.index.json, and copies of config.json, tokenizer and the other small files. Files are opened with torch.load(weights_only=True), which runs
no code that a checkpoint may carry. Needs torch and safetensors (pip install torch safetensors).
"""

import argparse
import json
import pickle
import shutil
import sys
import warnings
from pathlib import Path

ENDINGS = (".bin", ".pt", ".pth")
# Files of a checkpoint's folder that hold no weights.
OTHERS = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "rng_state.pth")
# Weights in other formats, which are not copied.
OTHER_WEIGHTS = (".safetensors", ".gguf", ".msgpack", ".onnx", ".h5", ".ot")


def fail(message):
    sys.exit(f"convert_checkpoint: {message}")


def load_libraries():
    try:
        import safetensors.torch
        import torch
    except ImportError as error:
        fail(f"this needs {error.name}, which is not installed; pip install torch safetensors")
    return torch, safetensors.torch


def sources(path: Path):
    if path.is_file():
        return [path]
    if not path.is_dir():
        fail(f"there is no {path}")
    index = path / "pytorch_model.bin.index.json"
    if index.is_file():
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        missing = [name for name in names if Path(name).name != name or not (path / name).is_file()]
        if missing:
            fail(f"{index} names files that are not beside it: {', '.join(missing)}")
        return [path / name for name in names]
    found = sorted(file for file in path.iterdir() if file.suffix in ENDINGS and file.name not in OTHERS)
    if not found:
        fail(f"{path} holds no file that ends in {', '.join(ENDINGS)}")
    return found


def read(torch, source: Path):
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # whose text advises to load it all the same
        fail(f"{source} holds more than tensors, and loading it would run code: it is not opened")
    except Exception as error:  # torch raises many kinds for broken files
        fail(f"{source} is not opened: {str(error).splitlines()[0]}")
    for key in ("state_dict", "model"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict):
        fail(f"{source} holds a {type(state).__name__}, not a dictionary of tensors")
    tensors = {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        fail(f"{source} holds no tensors")
    return tensors


def shards_of(tensors, limit):
    """Tensors in their order, a new shard where the limit would be passed."""
    shards, size = [{}], 0
    for name, tensor in tensors.items():
        num_bytes = tensor.numel() * tensor.element_size()
        if shards[-1] and size + num_bytes > limit:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += num_bytes
    return shards


def collect(torch, files):
    """All tensors, contiguous. A tensor that shares another's memory (a tied head) is stored as itself once more."""
    tensors, memory = {}, set()
    for source in files:
        for name, tensor in read(torch, source).items():
            if name in tensors:
                fail(f"the tensor {name} is in two files, the second {source}")
            place = tensor.untyped_storage().data_ptr()
            tensors[name] = tensor.clone() if place in memory else tensor.contiguous()
            memory.add(tensors[name].untyped_storage().data_ptr())
    return tensors


def write(save_file, tensors, folder: Path, limit):
    shards = shards_of(tensors, limit)
    metadata = {"format": "pt"}
    if len(shards) == 1:
        save_file(tensors, folder / "model.safetensors", metadata)
        return
    weight_map = {}
    for i, shard in enumerate(shards, 1):
        name = f"model-{i:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / name, metadata)
        weight_map.update(dict.fromkeys(shard, name))
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def copy_others(folder: Path, out: Path):
    """Configuration, tokenizer, licence: what the quantised copies of a model need beside its weights."""
    for file in sorted(folder.iterdir()):
        is_weights = file.suffix in (*ENDINGS, *OTHER_WEIGHTS) or file.name.endswith(".index.json")
        if file.is_file() and not is_weights and not file.name.startswith(".") and not (out / file.name).exists():
            shutil.copy(file, out / file.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a .bin, .pt or .pth file, or their folder")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to make; it must not hold weights")
    parser.add_argument("--shard-gib", type=float, default=4, metavar="GIB", help="largest shard (GiB); default 4")
    args = parser.parse_args()
    if args.shard_gib <= 0:
        fail(f"--shard-gib is {args.shard_gib}, a size above 0 is needed")
    files = sources(args.checkpoint)
    if any(args.out.glob("*.safetensors*")):
        fail(f"{args.out} holds safetensors already; name another folder")
    torch, safetensors = load_libraries()
    tensors = collect(torch, files)
    args.out.mkdir(parents=True, exist_ok=True)
    write(safetensors.save_file, tensors, args.out, args.shard_gib * 2**30)
    copy_others(args.checkpoint if args.checkpoint.is_dir() else args.checkpoint.parent, args.out)
    print(f"{len(tensors)} tensors of {len(files)} file{'s' * (len(files) > 1)} -> {args.out}")


if __name__ == "__main__":
    main()
