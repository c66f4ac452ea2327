"""Tiny decoder models of every family: configuration, what each exercises, and changes of it that must be visible.

A fixture proves something only if it can fail: `changes` are configurations of the same weights whose logits must
differ from the fixture's (make_decoder_fixtures.py checks it), as if a reader had ignored the key.
"""

from dataclasses import dataclass, field

import transformers as hf

VOCABULARY = 96


@dataclass
class Family:
    config: hf.PretrainedConfig
    exercises: str
    changes: list = field(default_factory=list)  # of dictionaries: keys of config.json to overwrite
    dtype: str = "float32"  # of the matrices in the file; logits are computed in float32 from what it holds


def llama_like(config_class, **more):
    common = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
              "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
              "rope_theta": 100.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return config_class(**(common | more))


def falcon(**more):
    return hf.FalconConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           bos_token_id=1, eos_token_id=2, **more)


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 0.75,
        "beta_slow": 0.25}
NO_SCALING = {"rope_scaling": None}
NO_WINDOW = {"sliding_window": None, "layer_types": None}

FAMILIES = {
    "opt": Family(
        hf.OPTConfig(vocab_size=VOCABULARY, hidden_size=32, word_embed_proj_dim=32, ffn_dim=48, num_hidden_layers=2,
                     num_attention_heads=4, max_position_embeddings=64),
        "learned positions from 2, biases, ReLU, pre-norm, tied", [{"activation_function": "gelu"}]),
    "opt_postnorm": Family(
        hf.OPTConfig(vocab_size=VOCABULARY, hidden_size=32, word_embed_proj_dim=16, ffn_dim=48, num_hidden_layers=2,
                     num_attention_heads=4, max_position_embeddings=64, do_layer_norm_before=False),
        "as OPT-350m: post-norm, no final norm, embeddings narrower than the layers (project_in); BF16 file", [],
        "bfloat16"),
    "bloom": Family(
        hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, seq_length=64),
        "ALiBi, norm of the embedding, qkv interleaved by head, GELU by tanh; BF16 file", [], "bfloat16"),
    "bloom_heads6": Family(
        hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=24, n_layer=2, n_head=6, seq_length=64,
                       layer_norm_epsilon=1e-3),
        "ALiBi slopes of 6 heads, not a power of two; BF16 file", [{"layer_norm_epsilon": 1e-1}], "bfloat16"),
    "llama1": Family(
        llama_like(hf.LlamaConfig, num_key_value_heads=4, rms_norm_eps=1e-6, rope_theta=10000.0),
        "as many key heads as query heads, untied; BF16 file", [{"rope_theta": 100.0}], "bfloat16"),
    "llama2": Family(
        llama_like(hf.LlamaConfig, rope_theta=10000.0), "2 query heads for a key head, untied",
        [{"rope_theta": 100.0}, {"rms_norm_eps": 1e-1}]),
    "llama3": Family(
        llama_like(hf.LlamaConfig, rope_theta=10.0, rope_scaling=LLAMA3, tie_word_embeddings=True),
        "rope_scaling llama3 with wavelengths in all three ranges, tied",
        [NO_SCALING, {"rope_scaling": LLAMA3 | {"high_freq_factor": 2.0}},
         {"rope_scaling": LLAMA3 | {"low_freq_factor": 2.0}}]),
    "llama_linear": Family(
        llama_like(hf.LlamaConfig, rope_scaling={"type": "linear", "factor": 4.0}),
        "rope_scaling linear, in the older spelling `type`; BF16 file", [NO_SCALING], "bfloat16"),
    "llama_dynamic": Family(
        llama_like(hf.LlamaConfig, rope_scaling={"rope_type": "dynamic", "factor": 4.0}, max_position_embeddings=16),
        "rope_scaling dynamic: the prompt of 21 is longer than max_position_embeddings 16; BF16 file",
        [NO_SCALING], "bfloat16"),
    "llama_yarn": Family(
        llama_like(hf.LlamaConfig, rope_scaling=YARN),
        "rope_scaling yarn: of 4 frequencies 2 stay, 1 is between, 1 is scaled; BF16 file",
        [NO_SCALING, {"rope_scaling": YARN | {"beta_fast": 2.0}}, {"rope_scaling": YARN | {"beta_slow": 1.0}},
         {"rope_scaling": YARN | {"attention_factor": 1.0}}], "bfloat16"),
    "llama_bias": Family(
        llama_like(hf.LlamaConfig, attention_bias=True, mlp_bias=True, head_dim=16, tie_word_embeddings=True),
        "attention_bias, mlp_bias, heads wider than hidden_size / heads (head_dim 16), tied; F16 file",
        [{"hidden_act": "gelu"}], "float16"),
    "qwen2": Family(
        llama_like(hf.Qwen2Config, tie_word_embeddings=True, rope_theta=10000.0),
        "biases of q, k and v alone, tied; BF16 file", [{"rope_theta": 100.0}], "bfloat16"),
    "qwen2_window": Family(
        llama_like(hf.Qwen2Config, num_hidden_layers=3, use_sliding_window=True, sliding_window=6, max_window_layers=1,
                   rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
        "window of 6 from layer max_window_layers 1 on, yarn with default betas in the older spelling; BF16 file",
        [NO_SCALING, NO_WINDOW | {"use_sliding_window": False},
         {"layer_types": ["sliding_attention"] * 3}], "bfloat16"),
    "qwen2_moe": Family(
        llama_like(hf.Qwen2MoeConfig, num_hidden_layers=3, num_experts=4, num_experts_per_tok=2,
                   moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[1],
                   norm_topk_prob=False),
        "experts without renormalisation, shared expert behind a sigmoid, a dense layer between; BF16 file",
        [{"norm_topk_prob": True}, {"num_experts_per_tok": 1}], "bfloat16"),
    "qwen3": Family(
        llama_like(hf.Qwen3Config, head_dim=16, tie_word_embeddings=True, rope_theta=10000.0),
        "norms of q and k, head_dim 16, tied; BF16 file", [{"rope_theta": 100.0}], "bfloat16"),
    "qwen3_moe": Family(
        llama_like(hf.Qwen3MoeConfig, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                   norm_topk_prob=True),
        "norms of q and k, renormalised experts, no shared one, untied; BF16 file",
        [{"norm_topk_prob": False}, {"num_experts_per_tok": 1}], "bfloat16"),
    "mistral": Family(
        llama_like(hf.MistralConfig, sliding_window=6, head_dim=16, tie_word_embeddings=False),
        "window of 6 in every layer, shorter than both prompts; BF16 file",
        [{"sliding_window": None}, {"sliding_window": 5}], "bfloat16"),
    "mixtral": Family(
        llama_like(hf.MixtralConfig, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2,
                   sliding_window=None, rope_theta=10000.0),
        "2 of 4 experts, renormalised; BF16 file", [{"num_experts_per_tok": 1}], "bfloat16"),
    "gemma": Family(
        llama_like(hf.GemmaConfig, num_key_value_heads=1, head_dim=16, rope_theta=10000.0),
        "embedding scaled by sqrt(hidden_size), norm weights from 1, GELU gate, one key head, tied; BF16 file",
        [{"hidden_act": "silu"}], "bfloat16"),
    "gemma2": Family(
        llama_like(hf.Gemma2Config, num_hidden_layers=3, head_dim=16, query_pre_attn_scalar=24, sliding_window=6,
                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0, rope_theta=10000.0),
        "norms after attention and MLP, soft caps of scores and logits, window of 6 in even layers; BF16 file",
        [{"query_pre_attn_scalar": 16}, {"attn_logit_softcapping": None}, {"final_logit_softcapping": None},
         {"sliding_window": 64}, {"layer_types": ["sliding_attention"] * 3}], "bfloat16"),
    "gemma3": Family(
        llama_like(hf.Gemma3TextConfig, num_hidden_layers=4, head_dim=16, query_pre_attn_scalar=24, sliding_window=6,
                   layer_types=["sliding_attention"] * 2 + ["full_attention", "sliding_attention"], rope_theta=1000.0,
                   rope_local_base_freq=10.0, rope_scaling={"rope_type": "linear", "factor": 8.0}),
        "norms of q and k, layer_types, another rope base in windows, linear rope_scaling outside of them; BF16 file",
        [NO_SCALING, {"rope_local_base_freq": 1000.0}, {"rope_theta": 10.0}, {"query_pre_attn_scalar": 16},
         {"sliding_window": 64}, {"layer_types": ["sliding_attention"] * 4}], "bfloat16"),
    "falcon": Family(
        falcon(multi_query=True, parallel_attn=True, new_decoder_architecture=False, bias=False, alibi=False),
        "as Falcon-7B: one key head, attention and MLP in parallel behind one norm, tied; BF16 file",
        [{"rope_theta": 100.0}], "bfloat16"),
    "falcon_new": Family(
        falcon(new_decoder_architecture=True, num_kv_heads=2, bias=False, alibi=False),
        "as Falcon-40B: grouped qkv of 2 key heads, two norms in parallel; BF16 file", [{"rope_theta": 100.0}],
        "bfloat16"),
    "falcon_one_norm": Family(
        falcon(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1, bias=False, alibi=False,
               ffn_hidden_size=48, tie_word_embeddings=False),
        "as Falcon2-11B: grouped qkv, one norm (num_ln_in_parallel_attn 1), ffn_hidden_size, untied; BF16 file", [],
        "bfloat16"),
    "falcon_alibi": Family(
        falcon(multi_query=False, parallel_attn=False, new_decoder_architecture=False, bias=True, alibi=True),
        "as Falcon-RW: ALiBi scaled with the scores, qkv interleaved by head, biases, MLP after attention; BF16 file",
        [{"alibi": False}], "bfloat16"),
    "gptj": Family(
        hf.GPTJConfig(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2, n_positions=64, n_inner=48, rotary_dim=8,
                      bos_token_id=1, eos_token_id=2),
        "interleaved rope of 8 of 16 dimensions, attention and MLP in parallel, bias of the head; BF16 file",
        [{"rotary_dim": 16}], "bfloat16"),
    "gpt2": Family(
        hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1,
                      eos_token_id=2),
        "learned positions, matrices stored transposed (Conv1D), fused qkv, tied; BF16 file",
        [{"activation_function": "relu"}], "bfloat16"),
    "gpt2_scaled": Family(
        hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=3, n_head=4, n_positions=64, n_inner=48, bos_token_id=1,
                      eos_token_id=2, scale_attn_by_inverse_layer_idx=True, tie_word_embeddings=False),
        "scale_attn_by_inverse_layer_idx, n_inner, untied; BF16 file", [{"scale_attn_by_inverse_layer_idx": False}],
        "bfloat16"),
    "phi3": Family(
        llama_like(hf.Phi3Config, rope_theta=10000.0, sliding_window=6),
        "fused qkv and gate_up, window of 6; BF16 file", [{"sliding_window": None}], "bfloat16"),
    "phi3_longrope": Family(
        llama_like(hf.Phi3Config, original_max_position_embeddings=16, sliding_window=None,
                   rope_scaling={"type": "longrope", "short_factor": [1.0, 1.25, 1.5, 2.0],
                                 "long_factor": [1.0, 2.0, 3.0, 4.0]}),
        "rope_scaling longrope: long factors for the prompt of 21, short ones for that of 9; BF16 file", [NO_SCALING],
        "bfloat16"),
}
