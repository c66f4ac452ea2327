#!/usr/bin/env python3
"""Reads a quantised checkpoint with the package compressed-tensors and compares it with our own values, bit for bit.

    python3 tests/reference/check_compressed_tensors.py [--load=FOLDER] CHECKPOINT EXPECTED.safetensors ...

EXPECTED holds the weights [out_features, in_features] that the codes stand for, in f32, under the names that they had
in the model. --load also opens a checkpoint with transformers and runs it. Exit status 77: a package is missing.
"""

import argparse
import json
import sys
from pathlib import Path

try:
    import torch
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig
    from compressed_tensors.utils.match import match_name
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def scheme_of(config, module):
    """The group whose targets name this module, as the package matches them."""
    found = [group for group in config.config_groups.values()
             if any(target == "Linear" or match_name(module, target) for target in group.targets)]
    assert len(found) == 1, f"{module} is in {len(found)} groups"
    assert not any(match_name(module, name) for name in config.ignore), f"{module} is ignored"
    return found[0]


def check(checkpoint, expected):
    raw = json.loads((checkpoint / "config.json").read_text())["quantization_config"]
    config = QuantizationConfig.model_validate(raw)
    compressor = BaseCompressor.load_from_registry(config.format)
    stored = {}
    for path in checkpoint.glob("*.safetensors"):
        stored.update(load_file(path))
    for name, values in load_file(expected).items():
        module = name.removesuffix(".weight")
        own = {key.removeprefix(module + "."): tensor for key, tensor in stored.items() if key.startswith(module + ".")}
        weight = compressor.decompress(own, scheme_of(config, module))["weight"]
        assert weight.shape == values.shape, f"{name}: {tuple(weight.shape)}, {tuple(values.shape)} expected"
        differ = (weight != values.to(weight.dtype)).sum().item()
        assert differ == 0, f"{name}: {differ} of {weight.numel()} weights differ"
    return len(load_file(expected))


def load(checkpoint):
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    logits = model(torch.arange(8).reshape(1, 8)).logits
    assert torch.isfinite(logits).all(), "transformers: logits that are not finite"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", type=Path, nargs="+", help="checkpoint, expected values, checkpoint, ...")
    parser.add_argument("--load", type=Path, help="checkpoint to run with transformers")
    arguments = parser.parse_args()
    pairs = zip(arguments.paths[::2], arguments.paths[1::2], strict=True)
    count = sum(check(checkpoint, expected) for checkpoint, expected in pairs)
    if arguments.load:
        load(arguments.load)
    print(f"{count} matrices are the same")


if __name__ == "__main__":
    main()
