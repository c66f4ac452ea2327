#!/usr/bin/env python3
"""Runs text through a model and writes what its operators read: the statistics that indicators and quantisers take.

    python3 scripts/activation_statistics.py MODEL --out statistics.safetensors
        [--text FILE] [--samples 32] [--tokens 512] [--hessian] [--layers-at-once N]

MODEL is a folder of Hugging Face's, or a .gguf file; nothing is downloaded. Needs torch and transformers (and gguf,
accelerate). The file is described in `tessera man statistics`. Sums are kept in f64, a batch at a time; --layers-at-
once passes over the text several times and holds the Hessians of so many layers only.
"""

import argparse
import json
import struct
import time
from pathlib import Path

import decoder


class Sums:
    """Running statistics of one input [tokens, features], merged as Chan, Golub and LeVeque (1979) do."""

    def __init__(self, torch, features, hessian):
        self.torch, self.count = torch, 0
        self.mean, self.squares, self.abs_sum = (torch.zeros(features, dtype=torch.float64) for _ in range(3))
        self.abs_max = torch.zeros(features)
        self.token_variance, self.token_mean_square = 0.0, 0.0
        self.hessian = torch.zeros(features, features, dtype=torch.float64) if hessian else None

    def add(self, x):
        x = x.reshape(-1, x.shape[-1])
        if x.shape[0] == 0:
            return
        wide = x.double()
        count, mean = x.shape[0], wide.mean(0)
        total = self.count + count
        delta = mean - self.mean
        self.squares += ((wide - mean) ** 2).sum(0) + delta**2 * (self.count * count / total)
        self.mean += delta * (count / total)
        self.abs_sum += wide.abs().sum(0)
        self.abs_max = self.torch.maximum(self.abs_max, x.abs().amax(0).float())
        self.token_variance += wide.var(1, unbiased=False).sum().item()
        self.token_mean_square += (wide**2).mean(1).sum().item()
        if self.hessian is not None:
            self.hessian += x.T @ x
        self.count = total

    def tensors(self):
        count = max(self.count, 1)
        scalar = lambda value: self.torch.tensor([value / count], dtype=self.torch.float64)
        found = {
            "mean": self.mean, "variance": self.squares / count, "abs_mean": self.abs_sum / count,
            "abs_max": self.abs_max, "token_variance": scalar(self.token_variance),
            "token_mean_square": scalar(self.token_mean_square),
        }
        if self.hessian is not None:
            found["hessian"] = self.hessian / count
        return found


def inputs_of(found):
    """Inputs that differ: {(layer, name): (module, features)}, and {(layer, name): name} for what shares one."""
    inputs, aliases = {}, {}
    for layer, names, module in found:
        features = module.weight.shape[0 if type(module).__name__ == "Conv1D" else 1]
        for name in names:
            bare = name.removeprefix("experts.")
            prefix = name[: len(name) - len(bare)]
            owner = prefix + decoder.INPUT_OF.get(bare, "")
            if (layer, owner) in inputs:
                aliases[layer, name] = owner
            else:
                inputs.setdefault((layer, name), ([], features))[0].append(module)
    return inputs, aliases


def shapes_of(features, hessian):
    shapes = {"mean": [features], "variance": [features], "abs_mean": [features], "abs_max": [features],
              "token_variance": [1], "token_mean_square": [1]}
    if hessian:
        shapes["hessian"] = [features, features]
    return shapes


def header_of(inputs, hessian, metadata):
    """Name, offset and shape of every tensor in the order they are written; safetensors' own layout."""
    header, offset = {"__metadata__": metadata}, 0
    for (layer, name), (_, features) in inputs.items():
        for field, shape in shapes_of(features, hessian).items():
            size = 4
            for extent in shape:
                size *= extent
            header[f"layers.{layer}.{name}.{field}"] = {
                "dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text


def collect(torch, model, chosen, batches, hessian):
    """Runs all batches with hooks on the chosen inputs."""
    sums = {key: Sums(torch, features, hessian) for key, (_, features) in chosen.items()}
    handles = [
        module.register_forward_pre_hook(lambda _, given, own=sums[key]: own.add(given[0].detach()))
        for key, (modules, _) in chosen.items() for module in modules
    ]
    try:
        with torch.no_grad():
            for batch in batches:
                model(batch[None])
    finally:
        for handle in handles:
            handle.remove()
    return sums


def write(path, torch, model, inputs, metadata, batches, options):
    layers = sorted({layer for layer, _ in inputs})
    at_once = options.layers_at_once or len(layers)
    temporary = path.with_suffix(path.suffix + ".part")
    started = time.monotonic()
    with open(temporary, "wb") as file:
        file.write(header_of(inputs, options.hessian, metadata))
        for first in range(0, len(layers), at_once):
            now = set(layers[first : first + at_once])
            chosen = {key: value for key, value in inputs.items() if key[0] in now}
            for key, own in collect(torch, model, chosen, batches, options.hessian).items():
                if own.count == 0:
                    decoder.fail(f"layer {key[0]} {key[1]} was never used by this text; give more --samples")
                for tensor in own.tensors().values():
                    file.write(tensor.float().contiguous().numpy().astype("<f4").tobytes())
            print(f"layers {first} to {max(now)} of {len(layers)}: {time.monotonic() - started:.1f} s", flush=True)
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="folder with config.json, or .gguf file")
    parser.add_argument("--out", type=Path, required=True, help="safetensors file to write")
    parser.add_argument("--text", type=Path, default=decoder.default_text(), help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=32, help="pieces of text (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of a piece (default %(default)s)")
    parser.add_argument("--hessian", action="store_true", help="X^T X / num_tokens of every input as well")
    parser.add_argument("--layers-at-once", type=int, default=0, help="passes over the text for so many layers each")
    options = parser.parse_args()
    if options.samples < 1 or options.tokens < 2 or options.layers_at_once < 0:
        parser.error("--samples and --tokens are positive, --layers-at-once is not negative")

    torch, _ = decoder.import_torch()
    model, tokenizer = decoder.load(options.model)
    inputs, aliases = inputs_of(decoder.linears(model))
    batches = decoder.samples(tokenizer, options.text, options.samples, options.tokens)
    metadata = {
        "format": "tessera.activation_statistics/1", "model": Path(options.model).name,
        "source": f"{options.text.name}, {batches.shape[0]} pieces of {batches.shape[1]} tokens, transformers, f32",
        "num_tokens": str(batches.numel()), "num_samples": str(batches.shape[0]),
    }
    for (layer, name), owner in aliases.items():
        metadata[f"alias:layers.{layer}.{name}"] = f"layers.{layer}.{owner}"
    write(options.out, torch, model, inputs, metadata, batches, options)
    print(f"{options.out}: {len(inputs)} inputs over {batches.numel()} tokens")


if __name__ == "__main__":
    main()
