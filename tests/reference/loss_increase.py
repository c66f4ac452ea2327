#!/usr/bin/env python3
"""The ground truth of an indicator: what the model's loss rises by when one layer at a time is quantised.

    python3 tests/reference/loss_increase.py MODEL --out loss.json
        [--bitwidths 3,4,8] [--granularity channel] [--group-size 128] [--text FILE] [--samples 4] [--tokens 256]

Rounds the matrices of one layer to nearest, symmetric, and takes the cross-entropy of the text (nats per token) less
that of the model as it is. A pass over the text for every layer and bitwidth: for small models. The file is an
indicator of kind "measured": `ts.indicator "loss.json"` reads it. omega is not negative, so an increase below 0
(noise of a short text) counts as 0, and `source` says how many do. MODEL is a folder of Hugging Face's, or a .gguf
file; nothing is downloaded. Needs torch and transformers (and gguf, accelerate).
"""

import argparse
import json
import time
from pathlib import Path

import decoder


def round_to_nearest(torch, weight, bitwidth, granularity, group_size):
    """A copy with one symmetric scale per tensor, row or group, as `tessera` rounds."""
    most = 2 ** (bitwidth - 1) - 1
    width = weight.shape[1] if granularity != "group" else group_size
    result = torch.empty_like(weight)
    for first in range(0, weight.shape[1], width):
        part = weight[:, first : first + width]
        largest = part.abs().amax() if granularity == "tensor" else part.abs().amax(1, keepdim=True)
        scale = torch.where(largest > 0, largest / most, torch.ones_like(largest))
        result[:, first : first + width] = torch.clamp(torch.round(part / scale), -most, most) * scale
    return result


def loss_of(torch, model, batches):
    """Mean cross-entropy over the predicted tokens (nats)."""
    total = 0.0
    with torch.no_grad():
        for batch in batches:
            logits = model(batch[None]).logits[0, :-1].double()
            total += torch.nn.functional.cross_entropy(logits, batch[1:]).item()
    return total / len(batches)


def increase_of(torch, model, modules, bitwidth, batches, base, options):
    kept = [module.weight.data for module in modules]
    try:
        for module in modules:
            transposed = type(module).__name__ == "Conv1D"
            weight = module.weight.data.T if transposed else module.weight.data
            rounded = round_to_nearest(torch, weight, bitwidth, options.granularity, options.group_size)
            module.weight.data = rounded.T if transposed else rounded
        return loss_of(torch, model, batches) - base
    finally:
        for module, weight in zip(modules, kept):
            module.weight.data = weight


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="folder with config.json, or .gguf file")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--bitwidths", default="3,4,8", help="default %(default)s; 16 is added: no increase")
    parser.add_argument("--granularity", choices=["tensor", "channel", "group"], default="channel")
    parser.add_argument("--group-size", type=int, default=128)
    parser.add_argument("--text", type=Path, default=decoder.default_text(), help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=4, help="pieces of text (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a piece (default %(default)s)")
    options = parser.parse_args()
    try:
        bitwidths = sorted({int(one) for one in options.bitwidths.split(",")} - {16})
    except ValueError:
        parser.error(f"--bitwidths is a list such as 3,4,8, not '{options.bitwidths}'")
    if not bitwidths or bitwidths[0] < 2 or bitwidths[-1] > 8 or options.group_size < 1:
        parser.error("--bitwidths are from 2 to 8, --group-size is positive")

    torch, _ = decoder.import_torch()
    model, tokenizer = decoder.load(options.model)
    layers = {}
    for layer, _, module in decoder.linears(model):
        layers.setdefault(layer, []).append(module)
    batches = decoder.samples(tokenizer, options.text, options.samples, options.tokens)
    started = time.monotonic()
    base = loss_of(torch, model, batches)
    found = []
    for layer in sorted(layers):
        found.append([increase_of(torch, model, layers[layer], bitwidth, batches, base, options)
                      for bitwidth in bitwidths])
        print(f"layer {layer}: {found[-1]} ({time.monotonic() - started:.0f} s)", flush=True)
    negative = sum(value < 0 for row in found for value in row)
    options.out.write_text(json.dumps({
        "kind": "measured", "variant": "loss_increase", "provenance": "measured",
        "overhead_s": time.monotonic() - started,
        "source": f"loss less {base:.6f} nats a token, one layer at a time to nearest, symmetric, a scale per "
                  f"{options.granularity}; {Path(options.model).name}, {batches.shape[0]} pieces of {batches.shape[1]} "
                  f"tokens of {options.text.name}; {negative} of {len(found) * len(bitwidths)} were below 0",
        "bitwidths": bitwidths + [16], "omega": [[max(value, 0.0) for value in row] + [0.0] for row in found],
    }, indent=1) + "\n")


if __name__ == "__main__":
    main()
