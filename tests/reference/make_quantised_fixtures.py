#!/usr/bin/env python3
"""Writes decoders/quantised/: a tiny Llama (and gpt-oss) in every way in which checkpoints are quantised already.

    pip install torch==2.15.0 transformers==5.24.0 safetensors numpy
    python3 tests/reference/make_quantised_fixtures.py tests/reference/decoders/quantised

The files are written here, number by number, as the programs named beside each writer lay them out; nothing of those
programs runs, since most need a GPU. The logits are those of transformers in float32 with the weights that the layout
stands for, by its formula in float64. The tests read the files without Python.
"""

import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file as save_tensors
from transformers import GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM

HIDDEN, FFN, VOCABULARY, LENGTHS = 32, 64, 96, [21, 9]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                0.7229568362236023, 1.0], np.float32)


def words(codes, bits):
    """Codes one after the other along the last axis, in little-endian words of 32 bits."""
    as_bits = (codes[..., None].astype(np.uint32) >> np.arange(bits, dtype=np.uint32)) & 1
    as_bits = as_bits.reshape(*codes.shape[:-1], -1)
    as_bits = np.pad(as_bits, [(0, 0)] * (codes.ndim - 1) + [(0, -as_bits.shape[-1] % 32)])
    as_bits = as_bits.reshape(*codes.shape[:-1], -1, 32)
    return (as_bits << np.arange(32, dtype=np.uint32)).sum(-1, dtype=np.uint32).view(np.int32)


def random_groups(rng, rows, columns, group, bits, symmetric):
    """Codes, scales in float16 and zero points of rows in groups."""
    codes = rng.integers(0, 1 << bits, (rows, columns))
    groups = -(-columns // group)
    scales = (rng.uniform(0.5, 1.5, (rows, groups)) / (1 << bits)).astype(np.float16)
    middle = 1 << (bits - 1)
    zeros = np.full((rows, groups), middle) if symmetric else rng.integers(1, 1 << bits, (rows, groups))
    return codes, scales, zeros


def gptq(bits, group, symmetric=True, scattered=False, version="gptq"):
    """AutoGPTQ's and GPTQModel's QuantLinear.pack."""
    size = group if group > 0 else None

    def write(rng, rows, columns):
        codes, scales, zeros = random_groups(rng, rows, columns, size or columns, bits, symmetric)
        index = np.arange(columns) // (size or columns)
        if scattered:
            index = rng.permutation(index)
        stored = zeros - 1 if version == "gptq" else zeros
        value = scales.astype(np.float64)[:, index] * (codes - zeros[:, index])
        return value, {".qweight": words(codes, bits).T, ".qzeros": words(stored.T, bits), ".scales": scales.T,
                       ".g_idx": index.astype(np.int32)}

    return write, {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": scattered, "sym": symmetric,
                   "checkpoint_format": version}


def awq():
    """AutoAWQ's WQLinear_GEMM.from_linear."""
    def write(rng, rows, columns):
        codes, scales, zeros = random_groups(rng, rows, columns, 16, 4, False)
        order = np.arange(rows).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(-1)
        value = scales.astype(np.float64).repeat(16, 1) * (codes - zeros.repeat(16, 1))
        return value, {".qweight": words(codes.T[:, order], 4), ".qzeros": words(zeros.T[:, order], 4),
                       ".scales": scales.T}

    return write, {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True, "version": "gemm"}


def fp8(kind):
    """transformers' FP8Linear (blocks), compressed-tensors' float-quantized (rows), ModelOpt (tensors)."""
    def write(rng, rows, columns):
        stored = torch.tensor(rng.normal(0, 60, (rows, columns))).to(torch.float8_e4m3fn)
        down, across = {"block": (-(-rows // 24), -(-columns // 16)), "channel": (rows, 1), "tensor": (1, 1)}[kind]
        scales = rng.uniform(0.5, 1.5, (down, across)).astype(np.float32) / 400
        whole = scales.astype(np.float64)
        if kind == "block":
            whole = whole.repeat(24, 0)[:rows].repeat(16, 1)[:, :columns]
        value = stored.to(torch.float64).numpy() * whole
        name = ".weight_scale_inv" if kind == "block" else ".weight_scale"
        shaped = scales.reshape(()) if kind == "tensor" else scales
        beside = {name: shaped}
        if kind == "tensor":
            beside[".input_scale"] = np.float32(0.1).reshape(())
        return value, {".weight": stored, **beside}

    return write, {"block": {"quant_method": "fp8", "weight_block_size": [24, 16], "activation_scheme": "dynamic"},
                   "channel": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {
                       "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float",
                                                                      "strategy": "channel", "symmetric": True}}}},
                   "tensor": {"quant_method": "modelopt", "quant_algo": "FP8"}}[kind]


def fp4(writer):
    """NVFP4 of ModelOpt (times weight_scale_2) and of compressed-tensors (over weight_global_scale)."""
    def write(rng, rows, columns):
        codes = rng.integers(0, 16, (rows, columns))
        scales = torch.tensor(rng.uniform(50, 400, (rows, columns // 16))).to(torch.float8_e4m3fn)
        factor = np.float32(1 / 1777)
        value = E2M1[codes] * scales.to(torch.float64).numpy().repeat(16, 1)
        packed = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
        if writer == "modelopt":
            return value * factor, {".weight": packed, ".weight_scale": scales, ".weight_scale_2": factor.reshape(()),
                                    ".input_scale": np.float32(0.1).reshape(())}
        return value / np.float64(1777), {".weight_packed": packed, ".weight_scale": scales,
                                          ".weight_global_scale": np.array([1777], np.float32)}

    return write, {"modelopt": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
                   "compressed": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
                                      "num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16,
                                      "symmetric": True}}}}}[writer]


def nf4(nested):
    """bitsandbytes' Linear4bit: blocks of the weights in a row, the first of two in the upper half of a byte."""
    def write(rng, rows, columns):
        codes = rng.integers(0, 16, rows * columns)
        blocks = rows * columns // 64
        state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns]}
        beside = {".weight.quant_map": NF4}
        if nested:
            table = np.sort(rng.uniform(-1, 1, 256)).astype(np.float32)
            largest = rng.integers(0, 256, blocks).astype(np.uint8)
            outer = rng.uniform(0.05, 0.2, -(-blocks // 16)).astype(np.float32)
            offset = 0.40625
            scales = table[largest].astype(np.float64) * outer.repeat(16)[:blocks] + offset
            state |= {"nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": offset}
            beside |= {".weight.nested_quant_map": table, ".weight.nested_absmax": outer}
        else:
            largest = rng.uniform(0.2, 0.6, blocks).astype(np.float32)
            scales = largest.astype(np.float64)
        text = np.frombuffer(json.dumps(state).encode(), np.uint8).copy()
        value = (NF4[codes].astype(np.float64) * scales.repeat(64)).reshape(rows, columns)
        return value, {".weight": (codes[0::2] << 4 | codes[1::2]).astype(np.uint8).reshape(-1, 1), **beside,
                       ".weight.absmax": largest, ".weight.quant_state.bitsandbytes__nf4": text}

    return write, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                   "bnb_4bit_use_double_quant": nested}


def int8():
    """bitsandbytes' Linear8bitLt: the largest of each row is 127."""
    def write(rng, rows, columns):
        codes = rng.integers(-127, 128, (rows, columns)).astype(np.int8)
        largest = rng.uniform(0.3, 0.6, rows).astype(np.float32)
        return codes * (largest.astype(np.float64) / 127)[:, None], {
            ".weight": codes, ".SCB": largest, ".weight_format": np.zeros((), np.uint8)}

    return write, {"quant_method": "bitsandbytes", "load_in_8bit": True}


LLAMAS = {
    "gptq": gptq(4, 16), "gptq_zero_points": gptq(4, 16, symmetric=False), "gptq_3_bits": gptq(3, 32),
    "gptq_8_bits_row": gptq(8, -1), "gptq_desc_act": gptq(4, 16, symmetric=False, scattered=True),
    "gptq_v2": gptq(4, 16, symmetric=False, version="gptq_v2"), "awq": awq(), "fp8_block": fp8("block"),
    "fp8_channel": fp8("channel"), "fp8_tensor": fp8("tensor"), "nvfp4_modelopt": fp4("modelopt"),
    "nvfp4_compressed": fp4("compressed"), "bnb_nf4": nf4(False), "bnb_nf4_nested": nf4(True), "bnb_int8": int8(),
}


def tensor_of(value):
    return value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))


def finish(folder, model, stored, config, quantised, seed):
    """config.json, model.safetensors, expected.safetensors of a model that has its values already."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {**config.to_dict(), "quantization_config": quantised}
    keep = ("architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers",
            "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings",
            "rms_norm_eps", "rope_theta", "rope_parameters", "rope_scaling", "hidden_act", "tie_word_embeddings",
            "attention_bias", "num_local_experts", "num_experts_per_tok", "sliding_window", "layer_types",
            "quantization_config")
    whole["architectures"] = [type(model).__name__]
    (folder / "config.json").write_text(json.dumps({k: whole[k] for k in keep if k in whole}, indent=2) + "\n")
    save_tensors({k: tensor_of(v).contiguous() for k, v in stored.items()}, folder / "model.safetensors")
    rng, expected = np.random.default_rng(seed + 1), {}
    for i, length in enumerate(LENGTHS):
        ids = rng.integers(0, VOCABULARY, length)
        with torch.no_grad():
            logits = model(torch.from_numpy(ids)[None]).logits[0].numpy()
        expected[f"input_ids.{i}"], expected[f"logits.{i}"] = ids, np.ascontiguousarray(logits, np.float32)
    save_arrays(expected, folder / "expected.safetensors")
    print(folder.name, "largest logit", max(np.abs(expected[f"logits.{i}"]).max() for i in (0, 1)))


def random_rest(model, rng):
    """What stays in numbers: rounded to bfloat16, as in the file."""
    stored = {}
    for name, parameter in model.named_parameters():
        scale, shift = (0.1, 1) if "norm" in name else (0.3, 0)
        value = torch.from_numpy(rng.normal(shift, scale, tuple(parameter.shape))).to(torch.bfloat16)
        parameter.data = value.float()
        stored[name] = value
    return stored


def llama(folder, write, quantised, seed):
    config = LlamaConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=64,
                         tie_word_embeddings=True, attn_implementation="eager")
    rng, model = np.random.default_rng(seed), LlamaForCausalLM(config).eval()
    stored = random_rest(model, rng)
    for name, module in model.model.named_modules():
        if not isinstance(module, torch.nn.Linear):
            continue
        value, beside = write(rng, module.out_features, module.in_features)
        module.weight.data = torch.from_numpy(value.astype(np.float32))
        del stored[f"model.{name}.weight"]
        stored |= {f"model.{name}{ending}": tensor for ending, tensor in beside.items()}
    stored = {k: v for k, v in stored.items() if not k.startswith("lm_head")}
    finish(folder, model, stored, config, quantised, seed)


def gpt_oss(folder, seed):
    """transformers' integration of MXFP4: _blocks [experts, outputs, blocks, 16] and _scales beside them."""
    config = GptOssConfig(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, head_dim=8, vocab_size=VOCABULARY, max_position_embeddings=64,
                          num_local_experts=4, num_experts_per_tok=2, sliding_window=6, tie_word_embeddings=False,
                          rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                          attn_implementation="eager")
    rng, model = np.random.default_rng(seed), GptOssForCausalLM(config).eval()
    stored = random_rest(model, rng)
    for name, parameter in model.named_parameters():
        if not name.endswith(("gate_up_proj", "down_proj")):
            continue
        experts, columns, rows = parameter.shape
        codes = rng.integers(0, 16, (experts, rows, columns))
        exponents = rng.integers(120, 124, (experts, rows, columns // 32))
        value = E2M1[codes] * np.exp2(exponents - 127.0).repeat(32, 2)
        parameter.data = torch.from_numpy(value.transpose(0, 2, 1).astype(np.float32))
        packed = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
        del stored[name]
        stored |= {name + "_blocks": packed.reshape(experts, rows, columns // 32, 16),
                   name + "_scales": exponents.astype(np.uint8)}
    finish(folder, model, stored, config, {"quant_method": "mxfp4"}, seed)


def main():
    out = pathlib.Path(sys.argv[1])
    for seed, (name, (write, quantised)) in enumerate(LLAMAS.items()):
        llama(out / name, write, quantised, 100 + seed)
    gpt_oss(out / "gpt_oss_mxfp4", 200)


if __name__ == "__main__":
    main()
