#!/usr/bin/env python3
"""The ground truth of an indicator: what the model's loss rises by when one layer at a time is quantised.

    python3 scripts/loss_increase.py MODEL --out loss.json
        [--bitwidths 3,4,8] [--granularity channel] [--group-size 128] [--text FILE] [--samples 16] [--tokens 256]

Rounds the matrices of one layer to nearest, symmetric, and takes the cross-entropy of the text (nats per token) less
that of the model as it is. Layers before the changed one are not run again; still this is a pass over half the model
for every layer and bitwidth: for small models. The file is an indicator of kind "measured": `ts.indicator "loss.json"`
reads it. `standard_error` says what the choice of the text leaves open: of the mean increase, over the pieces. omega is
not negative, so an increase below 0 counts as 0, and `source` says how many do. What is done is kept in
loss.json.part, and the same command goes on from there. MODEL is a folder of Hugging Face's, or a .gguf file; nothing
is downloaded. Needs torch and transformers (and gguf, accelerate).
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


class Evaluation:
    """The loss of every piece of a text, starting at any layer from what the layers before it gave."""

    def __init__(self, torch, model, batches):
        self.torch, self.model, self.batches = torch, model, batches
        self.layers = decoder.layers(model)
        self.outputs = [[] for _ in self.layers]  # of every layer, by piece
        handles = [
            layer.register_forward_hook(lambda _, given, output, own=own: own.append(output))
            for layer, own in zip(self.layers, self.outputs)
        ]
        self.base = self.losses_from(0)
        for handle in handles:
            handle.remove()

    def losses_from(self, first):
        """Mean cross-entropy over the predicted tokens (nats) of each piece; layers before `first` give what they gave."""
        losses = []
        kept = [layer.forward for layer in self.layers[:first]]
        try:
            for piece, tokens in enumerate(self.batches):
                for index in range(first):
                    self.layers[index].forward = lambda *_, own=self.outputs[index][piece], **__: own
                with self.torch.no_grad():
                    logits = self.model(tokens[None], use_cache=False).logits[0, :-1]
                    loss = self.torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")
                losses.append(loss.double().mean().item())
        finally:
            for layer, forward in zip(self.layers, kept):
                layer.forward = forward
        return losses


def increases_of(torch, evaluation, index, modules, bitwidth, options):
    """By how much the loss of each piece rises when one layer is rounded."""
    kept = [module.weight.data for module in modules]
    try:
        for module in modules:
            transposed = type(module).__name__ == "Conv1D"
            weight = module.weight.data.T if transposed else module.weight.data
            rounded = round_to_nearest(torch, weight, bitwidth, options.granularity, options.group_size)
            module.weight.data = rounded.T if transposed else rounded
        return [loss - base for loss, base in zip(evaluation.losses_from(index), evaluation.base)]
    finally:
        for module, weight in zip(modules, kept):
            module.weight.data = weight


def mean_and_standard_error(torch, values):
    values = torch.tensor(values, dtype=torch.float64)
    return values.mean().item(), (values.std(correction=1) / len(values) ** 0.5).item()


class Progress:
    """Increases by layer, kept in a file beside the result until it is whole."""

    def __init__(self, out, settings):
        self.path, self.settings = Path(f"{out}.part"), settings
        self.layers, self.spent_s, self.started = [], 0.0, time.monotonic()
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            if kept["settings"] == settings:
                self.layers, self.spent_s = kept["layers"], kept["spent_s"]

    def seconds(self):
        return self.spent_s + time.monotonic() - self.started

    def add(self, increases):
        self.layers.append(increases)
        temporary = Path(f"{self.path}.new")
        temporary.write_text(json.dumps({"settings": self.settings, "spent_s": self.seconds(), "layers": self.layers}))
        temporary.replace(self.path)


def result_of(torch, progress, base, bitwidths, batches, options):
    """The indicator that the file holds; bitwidth 16 is the model as it is."""
    found = [[mean_and_standard_error(torch, one) for one in layer] for layer in progress.layers]
    cells = [cell for layer in found for cell in layer]
    return {
        "kind": "measured", "variant": "loss_increase", "provenance": "measured", "overhead_s": progress.seconds(),
        "source": f"loss less {base:.6f} nats a token, one layer at a time to nearest, symmetric, a scale per "
                  f"{options.granularity}; {Path(options.model).name}, {batches.shape[0]} pieces of {batches.shape[1]} "
                  f"tokens of {options.text.name}; of {len(cells)} increases {sum(mean < 0 for mean, _ in cells)} were "
                  f"below 0, {sum(mean < 2 * error for mean, error in cells)} below two of their standard errors",
        "bitwidths": bitwidths + [16],
        "omega": [[max(mean, 0.0) for mean, _ in layer] + [0.0] for layer in found],
        "standard_error": [[error for _, error in layer] + [0.0] for layer in found],
    }


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="folder with config.json, or .gguf file")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--bitwidths", default="3,4,8", help="default %(default)s; 16 is added: no increase")
    parser.add_argument("--granularity", choices=["tensor", "channel", "group"], default="channel")
    parser.add_argument("--group-size", type=int, default=128)
    parser.add_argument("--text", type=Path, default=decoder.default_text(), help="default: %(default)s")
    parser.add_argument("--samples", type=int, default=16, help="pieces of text (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a piece (default %(default)s)")
    options = parser.parse_args()
    try:
        bitwidths = sorted({int(one) for one in options.bitwidths.split(",")} - {16})
    except ValueError:
        parser.error(f"--bitwidths is a list such as 3,4,8, not '{options.bitwidths}'")
    if not bitwidths or bitwidths[0] < 2 or bitwidths[-1] > 8 or options.group_size < 1:
        parser.error("--bitwidths are from 2 to 8, --group-size is positive")
    if options.samples < 2 or options.tokens < 2:
        parser.error("--samples and --tokens are at least 2: the spread over the pieces is the noise")
    return options, bitwidths


def main():
    options, bitwidths = parse_options()
    torch, _ = decoder.import_torch()
    model, tokenizer = decoder.load(options.model)
    modules = {}
    for layer, _, module in decoder.linears(model):
        modules.setdefault(layer, []).append(module)
    batches = decoder.samples(tokenizer, options.text, options.samples, options.tokens)
    if batches.shape[0] < 2:
        decoder.fail(f"{options.text} has {batches.shape[0]} pieces of {options.tokens} tokens; two at least are needed")
    settings = [str(options.model), str(options.text), list(batches.shape), bitwidths, options.granularity,
                options.group_size]
    progress = Progress(options.out, settings)
    evaluation = Evaluation(torch, model, batches)
    base, error = mean_and_standard_error(torch, evaluation.base)
    print(f"loss {base:.4f} nats a token (standard error {error:.4f}); {progress.seconds():.0f} s", flush=True)
    for layer in sorted(modules)[len(progress.layers) :]:
        progress.add([increases_of(torch, evaluation, layer, modules[layer], bitwidth, options)
                      for bitwidth in bitwidths])
        cells = [mean_and_standard_error(torch, one) for one in progress.layers[-1]]
        print(f"layer {layer}: " + ", ".join(f"{bitwidth} bits {mean:+.5f} +- {own:.5f}" for bitwidth, (mean, own)
                                             in zip(bitwidths, cells)) + f" ({progress.seconds():.0f} s)", flush=True)
    options.out.write_text(json.dumps(result_of(torch, progress, base, bitwidths, batches, options), indent=1) + "\n")
    progress.path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
