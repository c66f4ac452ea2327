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
    "phi": Family(
        llama_like(hf.PhiConfig, partial_rotary_factor=0.5, rope_theta=10000.0),
        "attention and MLP in parallel behind one LayerNorm, rope of half a head, biases, that of the head too; BF16 file",
        [{"partial_rotary_factor": 1.0}, {"hidden_act": "relu"}], "bfloat16"),
    "phi_qk_norm": Family(
        llama_like(hf.PhiConfig, qk_layernorm=True, partial_rotary_factor=0.5, layer_norm_eps=1e-3),
        "LayerNorms of q and k with biases; BF16 file", [{"layer_norm_eps": 1e-1}], "bfloat16"),
    "glm": Family(
        llama_like(hf.GlmConfig, head_dim=16, attention_bias=True, rope_theta=10000.0),
        "interleaved rope of half a head, fused gate_up, biases of q, k and v; BF16 file",
        [{"partial_rotary_factor": 1.0}], "bfloat16"),
    "glm4": Family(
        llama_like(hf.Glm4Config, head_dim=16, rope_theta=10000.0),
        "as glm with norms after attention and MLP too; BF16 file", [{"partial_rotary_factor": 1.0}], "bfloat16"),
    "olmo": Family(
        llama_like(hf.OlmoConfig, clip_qkv=0.5, rope_theta=10000.0),
        "LayerNorms without weights, clip_qkv; BF16 file", [{"clip_qkv": None}], "bfloat16"),
    "olmo2": Family(
        llama_like(hf.Olmo2Config, rope_theta=10000.0),
        "norms of what attention and MLP give alone, norms of q and k over all heads; BF16 file",
        [{"rope_theta": 100.0}], "bfloat16"),
    "olmo3": Family(
        llama_like(hf.Olmo3Config, num_hidden_layers=3, sliding_window=6, rope_theta=100.0, rope_scaling=YARN,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        "as olmo2, windows of 6, where rope is without yarn; BF16 file",
        [NO_SCALING, {"sliding_window": 64}], "bfloat16"),
    "granite": Family(
        llama_like(hf.GraniteConfig, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6,
                   logits_scaling=2.0, rope_theta=10000.0),
        "multipliers of embeddings, attention, residuals and logits; BF16 file",
        [{"embedding_multiplier": 1.0}, {"attention_multiplier": 0.35}, {"residual_multiplier": 1.0},
         {"logits_scaling": 1.0}], "bfloat16"),
    "cohere": Family(
        llama_like(hf.CohereConfig, logit_scale=0.5, rope_theta=10000.0),
        "in parallel behind one LayerNorm without bias, interleaved rope, logit_scale, tied; BF16 file",
        [{"logit_scale": 1.0}, {"layer_norm_eps": 1e-1}], "bfloat16"),
    "cohere_qk_norm": Family(
        llama_like(hf.CohereConfig, logit_scale=0.5, use_qk_norm=True, rope_theta=10000.0),
        "as cohere, a LayerNorm of its own for every head of q and k; BF16 file", [], "bfloat16"),
    "cohere2": Family(
        llama_like(hf.Cohere2Config, num_hidden_layers=3, logit_scale=0.5, sliding_window=6, rope_theta=10000.0,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        "as cohere, windows of 6, no positions outside of them; BF16 file", [{"sliding_window": 64}], "bfloat16"),
    "starcoder2": Family(
        llama_like(hf.Starcoder2Config, rope_theta=10000.0),
        "LayerNorms, biases, GELU by tanh without gate, tied; BF16 file", [{"hidden_act": "relu"}], "bfloat16"),
    "gpt_neox": Family(
        llama_like(hf.GPTNeoXConfig, rotary_pct=0.25, rotary_emb_base=100, num_attention_heads=2),
        "as Pythia: in parallel behind two norms, qkv interleaved by head, rope of a quarter of a head; BF16 file",
        [{"rotary_pct": 1.0}, {"hidden_act": "relu"}], "bfloat16"),
    "gpt_neox_sequential": Family(
        llama_like(hf.GPTNeoXConfig, num_key_value_heads=4, rotary_pct=1.0, rotary_emb_base=100, use_parallel_residual=False),
        "MLP after attention, rope of whole heads; BF16 file", [], "bfloat16"),
    "stablelm": Family(
        llama_like(hf.StableLmConfig, use_qkv_bias=True, partial_rotary_factor=0.25, num_attention_heads=2,
                   num_key_value_heads=2, rope_theta=100.0),
        "LayerNorms, a gate, biases of q, k and v, rope of a quarter of a head; BF16 file",
        [{"partial_rotary_factor": 0.5}], "bfloat16"),
    "stablelm_parallel": Family(
        llama_like(hf.StableLmConfig, use_parallel_residual=True, qk_layernorm=True, num_attention_heads=2,
                   num_key_value_heads=1, rope_theta=100.0),
        "as StableLM 2 12B: in parallel behind one norm, a LayerNorm of its own for every head of q and k; BF16 file",
        [], "bfloat16"),
    "gpt_oss": Family(
        llama_like(hf.GptOssConfig, num_hidden_layers=3, head_dim=16, intermediate_size=24, num_local_experts=4,
                   num_experts_per_tok=2, sliding_window=6, rope_scaling=YARN | {"truncate": False}, rope_theta=100.0,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        "sinks, windows of 6, experts with biases and clamped SwiGLU, gate and up side by side; BF16 file",
        [NO_SCALING, {"sliding_window": 64}, {"num_experts_per_tok": 1}], "bfloat16"),
    "smollm3": Family(
        llama_like(hf.SmolLM3Config, num_hidden_layers=3, no_rope_layers=[1, 0, 1], rope_theta=10000.0),
        "no positions in the layers that no_rope_layers says, tied; BF16 file",
        [{"no_rope_layers": [1, 1, 1]}], "bfloat16"),
    "mpt": Family(
        hf.MptConfig(vocab_size=VOCABULARY, d_model=32, n_heads=4, n_layers=2, max_seq_len=64),
        "ALiBi, LayerNorms without biases, fused qkv, tied; BF16 file", [], "bfloat16"),
    "gpt_neo": Family(
        hf.GPTNeoConfig(vocab_size=VOCABULARY, hidden_size=32, num_layers=2, num_heads=4, intermediate_size=48,
                        max_position_embeddings=64, window_size=6, attention_types=[[["global", "local"], 1]],
                        bos_token_id=1, eos_token_id=2),
        "scores without scale, a window of 6 in every second layer, learned positions, tied; BF16 file",
        [{"window_size": 64}], "bfloat16"),
    "gpt_bigcode": Family(
        hf.GPTBigCodeConfig(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48,
                            bos_token_id=1, eos_token_id=2),
        "as StarCoder: one key head, learned positions, tied; BF16 file", [], "bfloat16"),
    "exaone4": Family(
        llama_like(hf.Exaone4Config, num_hidden_layers=3, sliding_window=6, rope_theta=10000.0,
                   layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
        "norms of outputs alone, norms of q and k, windows of 6, no positions outside of them; BF16 file",
        [{"sliding_window": 64}], "bfloat16"),
    "seed_oss": Family(
        llama_like(hf.SeedOssConfig, head_dim=16, attention_bias=True, attention_out_bias=True, rope_theta=10000.0),
        "Llama with biases of attention, heads wider than hidden_size / heads; BF16 file", [], "bfloat16"),
    "arcee": Family(
        llama_like(hf.ArceeConfig, rope_theta=10000.0), "squared ReLU without gate; BF16 file",
        [{"hidden_act": "relu"}], "bfloat16"),
    "nemotron": Family(
        llama_like(hf.NemotronConfig, norm_eps=1e-3, rope_theta=10000.0),
        "LayerNorms whose weights are kept less 1, squared ReLU, rope of half a head; BF16 file",
        [{"norm_eps": 1e-1}, {"partial_rotary_factor": 1.0}], "bfloat16"),
    "helium": Family(
        llama_like(hf.HeliumConfig, head_dim=8, rope_theta=10000.0), "interleaved rope; BF16 file", [], "bfloat16"),
    "hunyuan_dense": Family(
        llama_like(hf.HunYuanDenseV1Config, head_dim=16, rope_theta=10000.0),
        "norms of q and k after rope; BF16 file", [{"rope_theta": 100.0}], "bfloat16"),
    "ernie4_5": Family(
        llama_like(hf.Ernie4_5Config, head_dim=16, use_bias=True, rope_theta=10000.0),
        "interleaved rope, all biases, tied; BF16 file", [{"rope_theta": 100.0}], "bfloat16"),
    "granitemoe": Family(
        llama_like(hf.GraniteMoeConfig, intermediate_size=24, num_local_experts=4, num_experts_per_tok=2,
                   embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2.0,
                   rope_theta=10000.0),
        "granite with stacked experts; BF16 file", [{"num_experts_per_tok": 1}, {"residual_multiplier": 1.0}],
        "bfloat16"),
    "olmoe": Family(
        llama_like(hf.OlmoeConfig, intermediate_size=24, num_experts=4, num_experts_per_tok=2, rope_theta=10000.0),
        "experts without renormalisation, norms of q and k over all heads; BF16 file",
        [{"norm_topk_prob": True}, {"num_experts_per_tok": 1}], "bfloat16"),
    "dots1": Family(
        llama_like(hf.Dots1Config, num_hidden_layers=3, moe_intermediate_size=16, n_routed_experts=4,
                   num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True,
                   routed_scaling_factor=1.5, n_group=1, topk_group=1, rope_theta=10000.0),
        "experts chosen by sigmoid and correction, scaled, shared ones beside them, first layer dense; BF16 file",
        [{"norm_topk_prob": False}, {"routed_scaling_factor": 1.0}], "bfloat16"),
    "glm4_5": Family(
        llama_like(hf.Glm4MoeConfig, num_hidden_layers=3, head_dim=16, moe_intermediate_size=16, n_routed_experts=4,
                   num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True,
                   use_qk_norm=True, routed_scaling_factor=2.0, n_group=1, topk_group=1, rope_theta=10000.0),
        "as dots1, rope of half a head, biases of q, k and v; BF16 file", [{"partial_rotary_factor": 1.0}],
        "bfloat16"),
    "ernie4_5_moe": Family(
        llama_like(hf.Ernie4_5_MoeConfig, num_hidden_layers=3, moe_intermediate_size=16, moe_num_experts=4, moe_k=2,
                   moe_num_shared_experts=2, moe_layer_start_index=1, rope_theta=10000.0),
        "experts chosen by softmax and correction, shared ones beside them, first layer dense; BF16 file",
        [{"moe_k": 1}], "bfloat16"),
    "qwen3_next": Family(
        llama_like(hf.Qwen3NextConfig, num_hidden_layers=3, head_dim=16, num_experts=4, num_experts_per_tok=2,
                   moe_intermediate_size=16, shared_expert_intermediate_size=16, linear_num_key_heads=2,
                   linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, rope_theta=10000.0,
                   layer_types=["linear_attention", "full_attention", "linear_attention"]),
        "gated delta nets in two layers of three, gated attention with rope of a quarter of a head; BF16 file",
        [{"partial_rotary_factor": 1.0}, {"num_experts_per_tok": 1}, {"norm_topk_prob": False}], "bfloat16"),
    "granitemoehybrid": Family(
        llama_like(hf.GraniteMoeHybridConfig, num_hidden_layers=3, intermediate_size=16, shared_intermediate_size=24,
                   num_local_experts=4, num_experts_per_tok=2, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2,
                   mamba_d_state=8, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6,
                   logits_scaling=2.0, layer_types=["mamba", "attention", "mamba"]),
        "Mamba 2 in two layers of three, no positions, experts and a shared network; BF16 file",
        [{"num_experts_per_tok": 1}, {"residual_multiplier": 1.0}], "bfloat16"),
    "granitemoehybrid_dense": Family(
        llama_like(hf.GraniteMoeHybridConfig, num_local_experts=0, shared_intermediate_size=48, mamba_n_heads=8,
                   mamba_d_head=8, mamba_d_state=8, mamba_conv_bias=False, mamba_proj_bias=True, rope_theta=100.0,
                   position_embedding_type="rope", layer_types=["mamba", "attention"]),
        "Mamba 2 with biases of its projections, one group and rope; no experts; BF16 file",
        [{"position_embedding_type": "nope"}], "bfloat16"),
}



def latent(config_class, **more):
    """Latent attention and experts; the first layer dense."""
    common = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 24,
              "kv_lora_rank": 16, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 8,
              "moe_intermediate_size": 16, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 2,
              "first_k_dense_replace": 1, "routed_scaling_factor": 1.5, "rope_theta": None,
              "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
    return llama_like(config_class, **(common | more))


def gemma4_ropes():
    return {"rope_theta": None, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1000.0}}}


def newer_families():
    yarn = YARN | {"rope_theta": 100.0, "mscale": 1.0, "mscale_all_dim": 0.8}
    mamba2 = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_ssm": 64}
    rope = {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}
    return {
        "deepseek_v3": Family(
            latent(hf.DeepseekV3Config, n_group=4, topk_group=2, norm_topk_prob=True, rope_parameters=yarn),
            "latent attention, yarn with mscale, experts by groups; BF16 file",
            [{"topk_group": 4}, {"norm_topk_prob": False}, {"rope_interleave": False},
             {"rope_parameters": yarn | {"mscale_all_dim": 0.4}}], "bfloat16"),
        "deepseek_v2": Family(
            latent(hf.DeepseekV2Config, q_lora_rank=None, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                   num_experts_per_tok=3),
            "latent attention whose queries have none, experts by the best of a group, no renormalisation; BF16 file",
            [{"topk_method": "greedy"}, {"routed_scaling_factor": 1.0}], "bfloat16"),
        "glm4_moe_lite": Family(
            latent(hf.Glm4MoeLiteConfig, attention_bias=True, n_group=1, topk_group=1,
                   mlp_layer_types=["dense", "sparse", "sparse"]),
            "as GLM-4.7 Flash: latent attention with biases; BF16 file", [{"num_experts_per_tok": 1}], "bfloat16"),
        "lfm2": Family(
            llama_like(hf.Lfm2Config, num_hidden_layers=3, norm_eps=1e-3, conv_L_cache=3, conv_bias=True,
                       block_auto_adjust_ff_dim=False, layer_types=["conv", "full_attention", "conv"], **rope),
            "gated convolutions with biases in two layers of three, norms of q and k, tied; BF16 file",
            [{"norm_eps": 1e-1}], "bfloat16"),
        "lfm2_moe": Family(
            llama_like(hf.Lfm2MoeConfig, num_hidden_layers=3, conv_L_cache=4, moe_intermediate_size=16, num_experts=4,
                       num_experts_per_tok=2, num_dense_layers=1, routed_scaling_factor=1.5,
                       layer_types=["conv", "full_attention", "conv"], **rope),
            "as lfm2 with experts chosen by sigmoid and correction; BF16 file",
            [{"norm_topk_prob": False}, {"routed_scaling_factor": 1.0}], "bfloat16"),
        "nemotron_h": Family(
            llama_like(hf.NemotronHConfig, num_hidden_layers=4, head_dim=16, mamba_num_heads=8, mamba_head_dim=8,
                       n_groups=2, ssm_state_size=8, time_step_min=0.0, rope_theta=None, mlp_bias=True,
                       layers_block_type=["linear_attention", "mlp", "full_attention", "mlp"]),
            "blocks of one mixer each: Mamba 2 normed by groups, networks of squared ReLU, no positions; BF16 file",
            [{"mlp_hidden_act": "relu"}, {"layer_norm_epsilon": 1e-1}], "bfloat16"),
        "nemotron_h_moe": Family(
            llama_like(hf.NemotronHConfig, num_hidden_layers=4, head_dim=16, mamba_num_heads=8, mamba_head_dim=8,
                       n_groups=2, ssm_state_size=8, time_step_min=0.0, rope_theta=None, n_routed_experts=8,
                       num_experts_per_tok=2, n_group=4, topk_group=2, moe_intermediate_size=16, moe_latent_size=16,
                       moe_shared_expert_intermediate_size=24, routed_scaling_factor=1.5,
                       layers_block_type=["linear_attention", "moe", "full_attention", "moe"]),
            "as Nemotron 3: experts without gates in a space of their own, by groups, a shared one; BF16 file",
            [{"topk_group": 4}, {"norm_topk_prob": False}], "bfloat16"),
        "falcon_h1": Family(
            llama_like(hf.FalconH1Config, head_dim=16, attention_in_multiplier=1.5, attention_out_multiplier=0.8,
                       key_multiplier=0.7, ssm_in_multiplier=1.2, ssm_out_multiplier=0.6, mlp_multipliers=[0.9, 1.3],
                       ssm_multipliers=[0.8, 1.1, 0.9, 1.2, 0.7], embedding_multiplier=2.0, lm_head_multiplier=0.5,
                       **mamba2, **rope),
            "attention and Mamba 2 side by side without a norm, multipliers everywhere; BF16 file",
            [{"attention_in_multiplier": 1.0}, {"key_multiplier": 1.0}, {"ssm_multipliers": [1.0] * 5},
             {"mlp_multipliers": [1.0, 1.0]}, {"lm_head_multiplier": 1.0}], "bfloat16"),
        "falcon_h1_norm": Family(
            llama_like(hf.FalconH1Config, head_dim=16, mamba_rms_norm=True, mamba_norm_before_gate=True,
                       projectors_bias=True, mamba_proj_bias=True, **mamba2, **rope),
            "as falcon_h1, a norm by groups before the gate; BF16 file", [{"mamba_norm_before_gate": False}], "bfloat16"),
        "gemma4": Family(
            llama_like(hf.Gemma4TextConfig, num_hidden_layers=4, head_dim=8, global_head_dim=16, sliding_window=6,
                       hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCABULARY, num_kv_shared_layers=2,
                       use_double_wide_mlp=True, final_logit_softcapping=3.0, tie_word_embeddings=True,
                       layer_types=["sliding_attention", "full_attention"] * 2, **gemma4_ropes()),
            "inputs of layers by token, layers that attend to keys of others, heads of two widths, ropes of a part of "
            "the pairs, norms of values; BF16 file",
            [{"final_logit_softcapping": None}, {"sliding_window": 64}], "bfloat16"),
        "gemma4_moe": Family(
            llama_like(hf.Gemma4TextConfig, num_hidden_layers=3, head_dim=8, global_head_dim=16, sliding_window=6,
                       hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1,
                       enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=16,
                       tie_word_embeddings=True,
                       layer_types=["sliding_attention", "full_attention", "full_attention"], **gemma4_ropes()),
            "as Gemma 4 26B-A4B: experts beside the network, keys that are values; BF16 file",
            [{"top_k_experts": 1}], "bfloat16"),
        "llama4": Family(
            llama_like(hf.Llama4TextConfig, num_hidden_layers=4, head_dim=16, intermediate_size=16,
                       intermediate_size_mlp=48, num_local_experts=4, num_experts_per_tok=1,
                       interleave_moe_layer_step=2, no_rope_layers=[1, 0, 1, 1], attention_chunk_size=6, floor_scale=4,
                       attn_scale=0.5, tie_word_embeddings=False, **rope),
            "windows that are chunks of 6, norms of q and k after rope, a layer without rope whose queries grow, one of 4 "
            "experts by a sigmoid of what it reads, a shared one, every second layer dense; BF16 file",
            [{"attention_chunk_size": 5}, {"use_qk_norm": False}, {"attn_temperature_tuning": False},
             {"floor_scale": 8}, {"attn_scale": 0.1}, {"no_rope_layers": [1, 1, 1, 1]}], "bfloat16"),
        "gemma3n": Family(
            llama_like(hf.Gemma3nTextConfig, num_hidden_layers=4, head_dim=16, sliding_window=6,
                       hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCABULARY - 8,
                       num_kv_shared_layers=2, altup_num_inputs=3, laurel_rank=8, intermediate_size=48,
                       activation_sparsity_pattern=[0.75, 0.0, 0.5, 0.0], final_logit_softcapping=3.0,
                       tie_word_embeddings=True, layer_types=["sliding_attention", "full_attention"] * 2,
                       rope_theta=None, rope_parameters={
                           "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
                           "full_attention": {"rope_type": "default", "rope_theta": 1000.0}}),
            "three hidden states of a token, ways of low rank beside attention, gates that stay shut by their mean and "
            "spread, inputs of layers by token with a table of fewer tokens, layers that attend to keys of others; BF16 "
            "file",
            [{"activation_sparsity_pattern": [0.0] * 4}, {"activation_sparsity_pattern": [0.5, 0.0, 0.5, 0.0]},
             {"final_logit_softcapping": 30.0}, {"sliding_window": 64}], "bfloat16"),
        "kimi_linear": Family(
            latent(hf.KimiLinearConfig, num_hidden_layers=4, q_lora_rank=None, rope_theta=None, rope_parameters=None,
                   n_routed_experts=None, num_experts=8, num_experts_per_token=2, num_experts_per_tok=2,
                   num_expert_group=4, topk_group=2, num_shared_experts=1, n_shared_experts=1,
                   linear_attn_config={"num_heads": 4, "head_dim": 8, "short_conv_kernel_size": 4,
                                       "full_attn_layers": [3], "kda_layers": [1, 2, 4]}),
            "delta nets that forget by channel, their gates of low rank, in three layers of four, latent attention "
            "without rope, experts by groups; BF16 file",
            [{"topk_group": 4}, {"routed_scaling_factor": 1.0}], "bfloat16"),
        "jamba": Family(
            llama_like(hf.JambaConfig, num_hidden_layers=4, mamba_d_state=8, mamba_dt_rank=8, attn_layer_period=4,
                       attn_layer_offset=2, expert_layer_period=2, expert_layer_offset=1, num_experts=4,
                       num_experts_per_tok=2, rope_theta=None),
            "Mamba in three layers of four, experts without renormalisation in every second; BF16 file",
            [{"num_experts_per_tok": 1}, {"rms_norm_eps": 1e-1}], "bfloat16"),
    }


# Of transformers 5, by which these alone are made.
NEWER = hasattr(hf, "Qwen3_5TextConfig")
if NEWER:
    hybrid = {"head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
              "linear_value_head_dim": 12, "rope_theta": None, "layer_types": ["linear_attention", "full_attention"],
              "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}
    FAMILIES = {"qwen3_5": Family(
        llama_like(hf.Qwen3_5TextConfig, **hybrid), "gated delta nets whose projections are four tensors; BF16 file",
        [], "bfloat16"), "qwen3_5_moe": Family(
        llama_like(hf.Qwen3_5MoeTextConfig, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                   shared_expert_intermediate_size=16, **hybrid),
        "the same with experts; BF16 file", [{"num_experts_per_tok": 1}], "bfloat16")} | newer_families()
