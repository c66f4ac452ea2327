#!/usr/bin/env python3
"""Makes the tiny model that the indicators are tested on, and computes what they must give.

    python3 tests/reference/indicator_fixture.py [FOLDER]        default: experiments/indicator/data/tiny_llama

Written from the papers' formulas with numpy, in f64 where the engine sums, in f32 where it rounds; it shares no code
with the engine. The files are committed: the tests need no Python. Needs numpy.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np

LAYERS, HIDDEN, FFN, HEADS, KV_HEADS, TOKENS, SAMPLES = 6, 16, 24, 4, 2, 96, 3
BITWIDTHS = [3, 4, 8, 16]
GROUP = 5  # the last group of a row is shorter
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS, "vocab_size": 32,
    "max_position_embeddings": 128, "tie_word_embeddings": True, "hidden_act": "silu", "rms_norm_eps": 1e-5,
}
KV = HIDDEN // HEADS * KV_HEADS
LINEARS = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (KV, HIDDEN), "self_attn.v_proj": (KV, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN),
    "mlp.down_proj": (HIDDEN, FFN),
}
OWNER = {"k_proj": "q_proj", "v_proj": "q_proj", "up_proj": "gate_proj"}


def write_safetensors(path, tensors, metadata):
    """tensors: {name: (dtype, array)}; BF16 arrays are f32 whose lower half is zero."""
    header, body = {"__metadata__": metadata}, b""
    for name, (dtype, array) in tensors.items():
        words = array.astype("<f4")
        data = (words.view("<u4") >> 16).astype("<u2").tobytes() if dtype == "BF16" else words.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def make(rng):
    """Weights {(layer, name): f32}, with every second layer in BF16; inputs {(layer, name): [tokens, features]}."""
    weights, inputs = {}, {}
    for layer in range(LAYERS):
        for full, shape in LINEARS.items():
            weight = (rng.standard_normal(shape) * 0.1 * (1 + layer % 3)).astype("f4")
            if layer % 2 == 1:
                weight = (weight.view("u4") & 0xFFFF0000).view("f4")
            name = full.split(".")[1]
            weights[layer, name] = weight
            if name not in OWNER:
                mix = rng.standard_normal((shape[1], shape[1])) / 4 + np.diag(rng.uniform(0.5, 2, shape[1]))
                inputs[layer, name] = rng.standard_normal((TOKENS, shape[1])) @ mix + rng.standard_normal(shape[1])
    return weights, inputs


def statistics_of(x):
    return {
        "mean": x.mean(0), "variance": x.var(0), "abs_mean": abs(x).mean(0), "abs_max": abs(x).max(0),
        "token_variance": np.array([x.var(1).mean()]), "token_mean_square": np.array([(x**2).mean()]),
        "hessian": x.T @ x / len(x),
    }


def pieces(weight, granularity):
    """(rows, columns) slices that share a scale."""
    if granularity == "tensor":
        return [(slice(None), slice(None))]
    width = weight.shape[1] if granularity == "channel" else GROUP
    return [(slice(r, r + 1), slice(c, c + width))
            for r in range(weight.shape[0]) for c in range(0, weight.shape[1], width)]


def span(part, symmetric):
    return abs(part).max() if symmetric else max(part.max(), 0) - min(part.min(), 0)


def levels(bitwidth, symmetric, minus=1):
    return 2.0 ** (bitwidth - 1 if symmetric else bitwidth) - minus


def variance(weight, s, bitwidth, granularity, symmetric, stochastic, minus=1):
    g = (s["mean"] ** 2 + s["variance"]) / 6 if stochastic else s["variance"] / 4
    total = 0.0
    for rows, columns in pieces(weight, granularity):
        part = weight[rows, columns].astype("f8")
        step = span(part, symmetric) / levels(bitwidth, symmetric, minus)
        total += part.size * step**2 * g[columns].mean()
    return total


def published_variance(weight, s, bitwidth, name):
    widest = (weight.max(1) - weight.min(1)).astype("f8").max()
    c = 4 if name in ("gate_proj", "up_proj", "down_proj") else 1
    return c * (widest / (2 ** (bitwidth - 1) - 1)) ** 2 * s["token_variance"][0] * TOKENS / SAMPLES


def rounding_error(weight, bitwidth, granularity):
    """Q(W) - W, symmetric, to nearest, all in f32 as a kernel does it."""
    result = np.zeros_like(weight)
    if bitwidth == 16:
        return result
    most = 2 ** (bitwidth - 1) - 1
    for rows, columns in pieces(weight, granularity):
        part = weight[rows, columns]
        exact = abs(part).max().astype("f8") / most
        scale = np.float32(exact) or np.float32(1)
        if scale < exact:  # upwards, so that nothing clips
            scale = np.nextafter(scale, np.float32(np.inf))
        result[rows, columns] = np.clip(np.rint(part / scale), -most, most) * scale - part
    return result


def expected_of(weights, stats):
    def layers(value):
        return [[sum(value(weights[layer, name], stats[layer, OWNER.get(name, name)], b, name)
                     for name in (full.split(".")[1] for full in LINEARS)) for b in BITWIDTHS]
                for layer in range(LAYERS)]

    unknown = lambda w: {"mean": np.zeros(w.shape[1]), "variance": np.ones(w.shape[1])}
    error = lambda w, b: rounding_error(w, b, "channel").astype("f8")
    found = [({"kind": "variance", "weights_only": True}, layers(
        lambda w, s, b, _: variance(w, unknown(w), b, "tensor", True, False)))]
    for granularity in ("tensor", "channel", "group"):
        for symmetric in (True, False):
            for rounding in ("deterministic", "stochastic"):
                found.append(({"kind": "variance", "granularity": granularity, "symmetric": symmetric,
                               "rounding": rounding}, layers(lambda w, s, b, _: variance(
                                   w, s, b, granularity, symmetric, rounding == "stochastic"))))
    found += [
        ({"kind": "variance", "variant": "llm-pq"}, layers(
            lambda w, s, b, _: variance(w, s, b, "tensor", True, False, minus=0))),
        ({"kind": "variance", "variant": "llm-pq-code"}, layers(published_variance)),
        ({"kind": "hessian"}, layers(
            lambda w, s, b, _: np.linalg.eigvalsh(s["hessian"])[-1] * (error(w, b) ** 2).sum())),
        ({"kind": "measured"}, layers(
            lambda w, s, b, _: np.trace(error(w, b) @ s["hessian"] @ error(w, b).T))),
    ]
    return [{**options, "omega": omega} for options, omega in found]


def main():
    default = Path(__file__).parents[2] / "experiments/indicator/data/tiny_llama"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    weights, inputs = make(rng)
    tensors = {"model.embed_tokens.weight": ("F32", rng.standard_normal((32, HIDDEN)))}
    for layer in range(LAYERS):
        for full in LINEARS:
            tensors[f"model.layers.{layer}.{full}.weight"] = (
                ["F32", "BF16"][layer % 2], weights[layer, full.split(".")[1]])
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"model.layers.{layer}.{norm}.weight"] = ("F32", np.ones(HIDDEN))
    tensors["model.norm.weight"] = ("F32", np.ones(HIDDEN))
    write_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")

    # What the file holds, in f32, is what both sides compute from.
    stats = {key: {field: value.astype("f4").astype("f8") for field, value in statistics_of(x).items()}
             for key, x in inputs.items()}
    metadata = {"format": "tessera.activation_statistics/1", "model": "tiny_llama", "source": "random inputs, seed 7",
                "num_tokens": str(TOKENS), "num_samples": str(SAMPLES)}
    for layer in range(LAYERS):
        for name, owner in OWNER.items():
            metadata[f"alias:layers.{layer}.{name}"] = f"layers.{layer}.{owner}"
    write_safetensors(folder.with_suffix(".statistics.safetensors"), {
        f"layers.{layer}.{name}.{field}": ("F32", value)
        for (layer, name), own in stats.items() for field, value in own.items()}, metadata)
    folder.with_suffix(".expected.json").write_text(json.dumps(
        {"bitwidths": BITWIDTHS, "group_size": GROUP, "cases": expected_of(weights, stats)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
