#!/usr/bin/env python3
"""Writes decoders/gguf/: tiny models as convert_hf_to_gguf.py of llama.cpp files them, and transformers' logits.

    pip install gguf==0.18.0 and what make_decoder_fixtures.py names
    python3 tests/reference/make_decoder_ggufs.py tests/reference/decoders/gguf [NAME...]

Facts of the format (which keys, which tensors are rearranged) are from llama.cpp's conversion, names of tensors from
the maps of the `gguf` package. The GGUF loader of transformers must get the same logits from the tensors of the file,
except for two models that it does not know how to rearrange.
"""

import math
import pathlib
import re
import shutil
import sys

import gguf
import make_decoder_fixtures as fixtures
import numpy
import torch
import transformers
from decoder_families import FAMILIES, LLAMA3, VOCABULARY, llama_like
from gguf import GGMLQuantizationType as Kind

hf = transformers
FILE_TYPES = {"float32": gguf.LlamaFileType.ALL_F32, "bfloat16": gguf.LlamaFileType.MOSTLY_BF16}

# name: (configuration, dtype of the matrices, what it exercises). What GGUF cannot say is as llama.cpp assumes it: the
# score scale of Gemma and every other, respectively every sixth layer without window, a rope base of 10000 in windows.
MODELS = {
    "llama": (FAMILIES["llama2"].config, "float32", "rows of q and k permuted, 2 query heads for a key head, untied"),
    "llama3": (FAMILIES["llama3"].config, "bfloat16", "rope_scaling llama3 as the tensor rope_freqs.weight, tied"),
    "llama_yarn": (FAMILIES["llama_yarn"].config, "bfloat16", "keys rope.scaling.* of yarn"),
    "llama_blocks": (
        llama_like(hf.LlamaConfig, hidden_size=256, intermediate_size=64, num_hidden_layers=2, head_dim=16,
                   tie_word_embeddings=True),
        "blocks", "matrices in blocks of Q8_0, Q4_0, Q4_K and Q6_K"),
    "mixtral": (FAMILIES["mixtral"].config, "bfloat16", "architecture llama with stacked experts"),
    "qwen2": (FAMILIES["qwen2"].config, "bfloat16", "biases of q, k and v; rows not permuted; tied"),
    "qwen3": (FAMILIES["qwen3"].config, "bfloat16", "norms of q and k, attention.key_length"),
    "qwen3moe": (FAMILIES["qwen3_moe"].config, "bfloat16", "stacked experts, expert_feed_forward_length"),
    "gemma2": (
        llama_like(hf.Gemma2Config, num_hidden_layers=3, head_dim=16, query_pre_attn_scalar=16, sliding_window=6,
                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_theta=10000.0),
        "bfloat16", "1 added to norm weights, soft caps, window in even layers"),
    "gemma3": (
        llama_like(hf.Gemma3TextConfig, hidden_size=16, num_hidden_layers=7, num_attention_heads=2,
                   num_key_value_heads=1, head_dim=16, query_pre_attn_scalar=16, sliding_window=6, rope_theta=100.0,
                   rope_local_base_freq=10000.0, rope_scaling={"rope_type": "linear", "factor": 8.0},
                   intermediate_size=24),
        "bfloat16", "1 added to norm weights, windows except in every sixth layer, where rope is scaled"),
    "gpt2": (FAMILIES["gpt2"].config, "bfloat16", "matrices transposed, tied"),
    "bloom": (FAMILIES["bloom"].config, "bfloat16", "qkv rearranged to all q, all k, all v; tied"),
    "falcon": (FAMILIES["falcon"].config, "bfloat16", "as Falcon-7B, one key head"),
    "falcon_new": (FAMILIES["falcon_new"].config, "bfloat16", "as Falcon-40B: qkv rearranged, attn_norm_2"),
}
ARCHITECTURES = {"mixtral": "llama", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3"}
LOADER_CANNOT = {"mixtral", "falcon_new"}


def add_tokenizer(writer, kind):
    """A vocabulary as long as the model's: three control tokens, printable ASCII, one merge."""
    space = "Ġ" if kind == "gpt2" else "▁"
    tokens = ["<unk>", "<s>", "</s>", space] + [chr(33 + i) for i in range(VOCABULARY - 5)] + ["ab"]
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    if kind == "gpt2":
        writer.add_token_merges(["a b"])
    else:
        writer.add_token_scores([float(-i) for i in range(VOCABULARY)])
    control = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    writer.add_token_types(control + [gguf.TokenType.NORMAL] * (VOCABULARY - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def add_llama_like(writer, config):
    """Keys of the architectures with RMS norms; which of them carry a rope base differs: Gemma 2 does not."""
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if config.model_type != "gemma2":
        writer.add_rope_freq_base(config.rope_theta)
    if config.to_dict().get("head_dim"):
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if config.model_type in ("llama", "mixtral"):
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(config.head_dim or config.hidden_size // config.num_attention_heads)
    if config.model_type in ("gemma2", "gemma3_text"):
        writer.add_sliding_window(config.sliding_window)
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if (experts := getattr(config, "num_local_experts", getattr(config, "num_experts", None))) is not None:
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    add_rope_scaling(writer, getattr(config, "rope_scaling", None) or {})


def add_rope_scaling(writer, scaling):
    """llama3 has no key: it is a tensor."""
    kind = scaling.get("rope_type")
    if kind == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(scaling["beta_slow"])


def add_older(writer, config):
    """Keys of GPT-2, BLOOM and Falcon; the MLP is taken to be four times as wide, Falcon's context 2048."""
    kind = config.model_type
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length({"gpt2": 64, "bloom": 64, "falcon": 2048}[kind])
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    if kind == "bloom":
        writer.add_head_count_kv(config.num_attention_heads)
    if kind == "falcon":
        writer.add_tensor_data_layout("jploski")
        writer.add_head_count_kv(key_heads(config))
    writer.add_layer_norm_eps(config.layer_norm_epsilon)


def key_heads(falcon_config):
    return falcon_config.num_kv_heads if falcon_config.new_decoder_architecture else 1


def permuted(weight, heads):
    """Pairs of rope side by side, where transformers has them half a head apart."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def unpermuted(weight, heads):
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def split_qkv(weight, groups, queries):
    """Of each group first its query heads, then key and value: to all queries, all keys, all values."""
    head_dim = weight.shape[0] // groups // (queries + 2)
    grouped = weight.reshape(groups, queries + 2, head_dim, *weight.shape[1:])
    parts = [grouped[:, :queries], grouped[:, queries:-1], grouped[:, -1:]]
    return torch.cat([part.reshape(-1, *weight.shape[1:]) for part in parts])


def rearranged(name, weight, config):
    """A tensor of transformers as GGUF has it."""
    kind = config.model_type
    if kind in ("llama", "mixtral") and (found := re.search(r"\.([qk])_proj\.weight$", name)):
        return permuted(weight, config.num_attention_heads if found[1] == "q" else config.num_key_value_heads)
    if kind.startswith("gemma") and name.endswith("norm.weight"):
        return weight + 1
    if kind == "gpt2" and re.search(r"\.(c_attn|c_proj|c_fc)\.weight$", name):
        return weight.T
    if kind == "bloom" and "query_key_value" in name:
        return split_qkv(weight, config.n_head, 1)
    if kind == "falcon" and "query_key_value" in name:
        groups = key_heads(config)
        return split_qkv(weight, groups, config.num_attention_heads // groups)
    return weight


def stacked_experts(state):
    """One tensor [experts, rows, columns] in the place of an expert's matrix in each layer."""
    found = {}
    for name, weight in state.items():
        mixtral = re.fullmatch(r"model\.(layers\.\d+)\.block_sparse_moe\.experts\.\d+\.(w\d)\.weight", name)
        expert = re.fullmatch(r"(model\.layers\.\d+\.mlp\.experts)\.\d+\.(\w+\.weight)", name)
        if mixtral:
            name = f"{mixtral[1]}.feed_forward.experts.{mixtral[2]}.weight"
        elif expert:
            name = f"{expert[1]}.{expert[2]}"
        found.setdefault(name, []).append(weight)
    return {name: weights[0] if len(weights) == 1 else torch.stack(weights) for name, weights in found.items()}


def tensors_of(model, architecture):
    """{GGUF's name: tensor}, in the order of the model."""
    config = model.config
    key = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(key, config.num_hidden_layers)
    tied = config.tie_word_embeddings
    found = {}
    if (getattr(config, "rope_scaling", None) or {}).get("rope_type") == "llama3":
        found["rope_freqs.weight"] = rope_factors(config)
    for name, weight in stacked_experts(model.state_dict()).items():
        if tied and name == "lm_head.weight":
            continue
        own = re.sub(r"^transformer\.", "", name) if architecture == "bloom" else name
        target = names.get_name(own, try_suffixes=(".weight", ".bias"))
        if target is None:
            fixtures.fail(f"{name} has no name in GGUF")
        found[target] = rearranged(name, weight, config)
    return found


def rope_factors(config):
    """What llama3's rope_scaling divides each frequency by."""
    head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
    found = []
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * config.rope_theta ** (i / head_dim)
        turns = LLAMA3["original_max_position_embeddings"] / wavelength
        low, high, factor = LLAMA3["low_freq_factor"], LLAMA3["high_freq_factor"], LLAMA3["factor"]
        smooth = min(max((turns - low) / (high - low), 0), 1)
        found.append(1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(found)


def kind_of(name, tensor, dtype):
    """Vectors, norms, positions and routers are F32 in every file."""
    if tensor.dim() == 1 or name.endswith("_norm.weight") or "ffn_gate_inp" in name or name == "position_embd.weight":
        return Kind.F32
    return Kind.BF16 if dtype == "bfloat16" else Kind.F32


# The architecture's own matrices in blocks: the package writes no K-quants, so those are random bytes with scales that
# give a deviation near 0.06. (type, offsets of the 16-bit scales in a block, their values)
BLOCKS = {
    "token_embd": (Kind.Q8_0, {}), "attn_q": (Kind.Q4_K, {0: 2.4e-4, 2: 1.8e-3}), "attn_k": (Kind.Q8_0, {}),
    "attn_v": (Kind.Q6_K, {208: 4.4e-5}), "attn_output": (Kind.Q4_0, {}),
    "ffn_gate": (Kind.Q4_0, {}), "ffn_up": (Kind.Q4_K, {0: 2.4e-4, 2: 1.8e-3}), "ffn_down": (Kind.Q8_0, {}),
}


def blocks_of(name, tensor, random):
    """(bytes, type): the matrix in blocks, or random blocks of its shape."""
    kind, scales = BLOCKS[name.removesuffix(".weight").split(".")[-1]]
    if not scales:
        return gguf.quants.quantize(numpy.ascontiguousarray(tensor.numpy()), kind), kind
    size, num_bytes = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, size=(tensor.numel() // size, num_bytes), dtype=numpy.uint8)
    for at, scale in scales.items():
        values = (scale * random.uniform(0.7, 1.3, size=len(data))).astype(numpy.float16)
        data[:, at : at + 2] = values.view(numpy.uint8).reshape(-1, 2)
    return data.reshape(tensor.shape[0], -1), kind


def quantise(model, tensors, random):
    """{name: (bytes, type)}; the model takes the numbers that the blocks hold."""
    config, state, found = model.config, model.state_dict(), {}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name in state:
        target = names.get_name(name, try_suffixes=(".weight",))
        if target not in tensors or tensors[target].dim() == 1:
            continue
        data, kind = blocks_of(target, tensors[target], random)
        values = torch.from_numpy(gguf.quants.dequantize(data, kind).astype(numpy.float32)).reshape(state[name].shape)
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        count = heads.get(target.split(".")[-2])
        state[name].copy_(unpermuted(values, count) if count else values)
        found[target] = (data, kind)
    return found


def write(name, folder):
    config, dtype, _ = MODELS[name]
    model, prompts, logits = fixtures.make(f"gguf/{name}", config, "float32" if dtype == "blocks" else dtype)
    config = model.config
    fixtures.check_routers(name, model, prompts)
    architecture = ARCHITECTURES.get(config.model_type, config.model_type)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tensors, blocks = tensors_of(model, architecture), {}
    if dtype == "blocks":
        blocks = quantise(model, tensors, numpy.random.default_rng(7))
        logits = fixtures.logits_of(model, prompts)

    writer = gguf.GGUFWriter(folder / "model.gguf", architecture)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(f"Tiny {name}")
    (add_older if config.model_type in ("gpt2", "bloom", "falcon") else add_llama_like)(writer, config)
    writer.add_file_type(FILE_TYPES.get(dtype, gguf.LlamaFileType.MOSTLY_Q4_K_M))
    add_tokenizer(writer, "llama" if architecture in ("llama", "gemma2", "gemma3") else "gpt2")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for target, tensor in tensors.items():
        data, kind = blocks.get(target, (None, kind_of(target, tensor, dtype)))
        if data is None:
            data = gguf.quants.quantize(numpy.ascontiguousarray(tensor.numpy()), kind)
        writer.add_tensor(target, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    fixtures.write_expected(folder / "expected.safetensors", prompts, logits)
    size = sum(file.stat().st_size for file in folder.iterdir())
    spread = torch.cat(logits).std().item()
    print(f"{name:16} {size / 1e3:5.0f} kB, logits of std {spread:.2f}, {check(name, folder, prompts, logits)}")


def check(name, folder, prompts, logits):
    """The tensors by transformers' own loader; the configuration is given, since it knows not every key."""
    if name in LOADER_CANNOT:
        return "not checked"
    model = hf.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="model.gguf", config=MODELS[name][0], dtype=torch.float32, attn_implementation="eager").eval()
    moved = fixtures.difference(fixtures.logits_of(model, prompts), logits)
    if moved > 1e-4:
        fixtures.fail(f"gguf/{name}: read by transformers its logits differ by {moved:.2g}")
    return f"transformers reads it to {moved:.2g}"


def main(folder, *names):
    fixtures.check_versions()
    torch.set_num_threads(1)
    hf.utils.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    for name in names or MODELS:
        write(name, pathlib.Path(folder) / name)
    rows = [[f"`{name}`", config.model_type, exercises] for name, (config, _, exercises) in MODELS.items()]
    fixtures.write_table(pathlib.Path(folder).parent / "README.md", "ggufs",
                         ["folder", "model_type of the same model", "exercises"], rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
