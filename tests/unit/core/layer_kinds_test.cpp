// Layers that are not alike: what mixes their tokens, what they keep of a token and of a sequence.
// Counts are those of transformers 5.24 for the same configuration, but for the numbers beside a
// router that it calls buffers.
#include <gmock/gmock.h>

#include "model_files.h"
#include "tessera/core/json.h"

namespace tessera::layer_kinds_test {
namespace {

using test::error_of;
using test::from_config;
using test::shipped;
using ::testing::HasSubstr;
using ::testing::Not;

Json config(std::string_view text) { return parse_config(text, "config.json"); }

Error refusal(const Json& json) {
  return error_of([&] { from_config(json); });
}

struct Counted {
  const char* config;
  std::int64_t parameters, kv_bytes, state_bytes;
};

void PrintTo(const Counted& counted, std::ostream* out) {
  *out << std::string_view(counted.config).substr(0, 40);
}

const Counted kCounted[] = {
    // Mamba 2.8b, Falcon-Mamba 7B, Codestral Mamba
    {R"({"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "vocab_size": 50280,
         "time_step_rank": 160})",
     2'768'345'600, 0, 64 * 5120 * (16 * 4 + 3 * 2)},
    {R"({"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64,
         "intermediate_size": 8192, "time_step_rank": 256, "vocab_size": 65024,
         "tie_word_embeddings": false})",
     7'272'665'088, 0, 64 * 8192 * (16 * 4 + 3 * 2)},
    {R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128,
         "head_dim": 64, "n_groups": 8, "state_size": 128, "vocab_size": 32768,
         "time_step_limit": [0.0, Infinity]})",
     7'285'403'648, 0, 64 * (8192 * 128 * 4 + (8192 + 2 * 8 * 128) * 3 * 2)},
    // Bamba 9B: three layers of attention, of 8 heads of 128
    {R"({"model_type": "bamba", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
         "attn_layer_indices": [9, 18, 27], "mamba_n_heads": 128, "mamba_d_head": 64,
         "mamba_d_state": 128, "mamba_n_groups": 1, "vocab_size": 128256})",
     9'780'235'392, 3 * 2 * 1024 * 2, 29 * (8192 * 128 * 4 + (8192 + 2 * 128) * 3 * 2)},
    // Both side by side in every layer
    {R"({"model_type": "falcon_h1", "hidden_size": 3072, "num_hidden_layers": 44,
         "num_attention_heads": 12, "num_key_value_heads": 2, "head_dim": 128,
         "intermediate_size": 12288, "vocab_size": 130048, "mamba_d_ssm": 3072, "mamba_n_heads": 24,
         "mamba_d_head": 128, "mamba_n_groups": 2, "mamba_d_state": 256})",
     7'654'832'224, 44 * 2 * 256 * 2, 44 * (3072 * 256 * 4 + (3072 + 2 * 2 * 256) * 3 * 2)},
    // LFM2 8B A1B
    {R"({"model_type": "lfm2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
         "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 7168,
         "moe_intermediate_size": 1792, "num_experts": 32, "num_experts_per_tok": 4,
         "num_dense_layers": 2, "vocab_size": 65536, "conv_L_cache": 3,
         "layer_types": ["conv", "conv", "full_attention", "conv", "conv", "conv", "full_attention",
                         "conv", "conv", "conv", "full_attention", "conv", "conv", "conv",
                         "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv",
                         "full_attention", "conv", "conv"]})",
     8'339'929'856 + 704, 6 * 2 * 512 * 2, 18 * 2048 * 2 * 2},
    // Qwen3.5 27B
    {R"({"model_type": "qwen3_5_text", "hidden_size": 5120, "num_hidden_layers": 64,
         "num_attention_heads": 24, "num_key_value_heads": 4, "head_dim": 256,
         "intermediate_size": 17408, "linear_num_value_heads": 48, "vocab_size": 248320})",
     26'895'998'464, 16 * 2 * 1024 * 2,
     48 * (48 * 128 * 128 * 4 + (2 * 16 * 128 + 48 * 128) * 3 * 2)},
    // Gemma 4 31B: keys of layers that see everything are their values, and are kept as both
    {R"({"model_type": "gemma4_text", "hidden_size": 5376, "num_hidden_layers": 60,
         "num_attention_heads": 32, "num_key_value_heads": 16, "num_global_key_value_heads": 4,
         "attention_k_eq_v": true, "intermediate_size": 21504, "hidden_size_per_layer_input": 0,
         "sliding_window": 1024})",
     30'697'345'280, (50 * 2 * 16 * 256 + 10 * 2 * 4 * 512) * 2, 0},
    // GLM-4.7 Flash and GLM-5, of which transformers counts no numbers beside the routers
    {R"({"model_type": "glm4_moe_lite", "hidden_size": 2048, "num_hidden_layers": 47,
         "num_attention_heads": 20, "num_key_value_heads": 20, "intermediate_size": 10240,
         "moe_intermediate_size": 1536, "n_routed_experts": 64, "num_experts_per_tok": 4,
         "q_lora_rank": 768, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
         "v_head_dim": 256, "vocab_size": 154880})",
     29'943'390'976 + 46 * 64, 47 * 576 * 2, 0},
    {R"({"model_type": "glm_moe_dsa", "hidden_size": 6144, "num_hidden_layers": 78,
         "num_attention_heads": 64, "num_key_value_heads": 64, "intermediate_size": 12288,
         "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
         "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
         "v_head_dim": 256, "index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048,
         "vocab_size": 154880})",
     743'911'199'232 + 75 * 256, 78 * (576 + 128) * 2, 0},
    // MiMo-V2 Flash: keys of 192, values of 128; 9 layers see everything, by 4 heads, 39 by 8
    {R"({"model_type": "mimo_v2_flash", "hidden_size": 4096, "num_hidden_layers": 48,
         "n_routed_experts": 256, "num_experts_per_tok": 8, "vocab_size": 152576})",
     308'778'768'832, (9 * 4 + 39 * 8) * (192 + 128) * 2, 0},
    // The defaults of classes whose layers are a row of switches or a short reader
    {R"({"model_type": "afmoe", "vocab_size": 200192, "hidden_size": 2048,
         "intermediate_size": 6144, "moe_intermediate_size": 1408, "num_hidden_layers": 32,
         "num_dense_layers": 1, "num_attention_heads": 16, "num_key_value_heads": 16,
         "head_dim": 128, "num_experts": 64, "num_experts_per_tok": 6, "num_shared_experts": 2,
         "sliding_window": 1024})",
     19'232'600'000, 262'144, 0},
    {R"({"model_type": "bitnet", "vocab_size": 128256, "hidden_size": 2560,
         "intermediate_size": 6912, "num_hidden_layers": 30, "num_attention_heads": 20,
         "num_key_value_heads": 5})",
     2'741'155'840, 76'800, 0},
    {R"({"model_type": "cwm", "vocab_size": 128256, "hidden_size": 6144,
         "intermediate_size": 21504, "num_hidden_layers": 64, "num_attention_heads": 48,
         "num_key_value_heads": 8, "head_dim": 128, "sliding_window": 8192})",
     32'581'097'472, 262'144, 0},
    {R"({"model_type": "exaone_moe", "vocab_size": 102400, "hidden_size": 4096,
         "intermediate_size": 16384, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 32, "sliding_window": 4096, "moe_intermediate_size": 1024,
         "num_experts": 64, "num_experts_per_tok": 8, "num_shared_experts": 1})",
     28'550'639'616 + 1'984, 524'288, 0},
    {R"({"model_type": "flex_olmo", "vocab_size": 100352, "hidden_size": 4096,
         "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 32, "num_experts_per_tok": 5, "num_experts": 7})",
     33'270'665'216, 524'288, 0},
    {R"({"model_type": "granitemoeshared", "vocab_size": 32000, "hidden_size": 4096,
         "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 32, "num_local_experts": 8, "num_experts_per_tok": 2})",
     37'039'116'288, 524'288, 0},
    {R"({"model_type": "internlm3", "vocab_size": 128512, "hidden_size": 4096,
         "intermediate_size": 10240, "num_hidden_layers": 48, "num_attention_heads": 32,
         "num_key_value_heads": 2, "head_dim": 128})",
     8'804'241'408, 49'152, 0},
    {R"({"model_type": "jais2", "vocab_size": 150272, "hidden_size": 3328,
         "intermediate_size": 26624, "num_hidden_layers": 32, "num_attention_heads": 26,
         "num_key_value_heads": 26, "attention_bias": true, "mlp_bias": true, "head_dim": 128})",
     8'090'401'280, 425'984, 0},
    {R"({"model_type": "minicpm3", "vocab_size": 73448, "hidden_size": 2560,
         "intermediate_size": 6400, "num_hidden_layers": 62, "num_attention_heads": 40,
         "num_key_value_heads": 40, "tie_word_embeddings": true, "head_dim": 32,
         "kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32,
         "v_head_dim": 64})",
     4'073'875'968, 35'712, 0},
    {R"({"model_type": "olmo_hybrid", "vocab_size": 100352, "hidden_size": 3840,
         "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 30,
         "num_key_value_heads": 30, "linear_num_key_heads": 30, "linear_num_value_heads": 30,
         "linear_key_head_dim": 96, "linear_value_head_dim": 192})",
     7'430'870'688, 122'880, 54'743'040},
    {R"({"model_type": "persimmon", "vocab_size": 262144, "hidden_size": 4096,
         "intermediate_size": 16384, "num_hidden_layers": 36, "num_attention_heads": 64})",
     9'397'175'296, 589'824, 0},
    {R"({"model_type": "recurrent_gemma", "num_hidden_layers": 26, "vocab_size": 256000,
         "hidden_size": 2560, "intermediate_size": 7680, "num_attention_heads": 10,
         "lru_width": 2560, "num_key_value_heads": 10, "tie_word_embeddings": true,
         "head_dim": 256})",
     2'010'263'040, 81'920, 460'800},
    {R"({"model_type": "rwkv", "vocab_size": 50277, "hidden_size": 4096, "num_hidden_layers": 32,
         "attention_hidden_size": 4096, "intermediate_size": 16384})",
     7'392'649'216, 0, 2'097'152},
    {R"({"model_type": "solar_open", "vocab_size": 196608, "hidden_size": 4096,
         "num_hidden_layers": 48, "num_attention_heads": 64, "num_key_value_heads": 8,
         "moe_intermediate_size": 1280, "num_experts_per_tok": 8, "n_shared_experts": 1,
         "n_routed_experts": 128, "head_dim": 128})",
     102'651'793'408 + 6'144, 196'608, 0},
    {R"({"model_type": "vaultgemma", "vocab_size": 256000, "hidden_size": 2304,
         "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
         "num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": true,
         "sliding_window": 4096})",
     2'614'222'080, 106'496, 0},
    {R"({"model_type": "youtu", "vocab_size": 128256, "hidden_size": 2048,
         "intermediate_size": 6144, "num_hidden_layers": 32, "num_attention_heads": 16,
         "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": 1536,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
         "tie_word_embeddings": true, "head_dim": 64})",
     1'961'560'064, 36'864, 0},
    {R"({"model_type": "hy_v3", "vocab_size": 120832, "hidden_size": 4096,
         "intermediate_size": 13312, "num_hidden_layers": 80, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 128, "num_experts": 192, "num_experts_per_tok": 8,
         "num_shared_experts": 1, "moe_intermediate_size": 1536})",
     295'033'528'320 + 15'168, 327'680, 0},
    {R"({"model_type": "mistral4", "vocab_size": 131072, "hidden_size": 4096,
         "intermediate_size": 12288, "moe_intermediate_size": 2048, "num_hidden_layers": 36,
         "num_attention_heads": 32, "num_key_value_heads": 32, "n_shared_experts": 1,
         "n_routed_experts": 128, "kv_lora_rank": 256, "q_lora_rank": 1024,
         "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 64,
         "num_experts_per_tok": 4, "first_k_dense_replace": 0, "head_dim": 128})",
     118'972'826'624, 23'040, 0},
    {R"({"model_type": "sarvam_mla", "vocab_size": 262144, "hidden_size": 4096,
         "intermediate_size": 16384, "moe_intermediate_size": 2048, "num_hidden_layers": 32,
         "num_attention_heads": 64, "num_key_value_heads": 64, "n_shared_experts": 1,
         "n_routed_experts": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "qk_nope_head_dim": 128, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
         "head_dim": 64})",
     106'031'763'456 + 3'968, 36'864, 0},
    {R"({"model_type": "sarvam_moe", "vocab_size": 262144, "hidden_size": 4096,
         "intermediate_size": 8192, "num_hidden_layers": 19, "num_attention_heads": 64,
         "num_key_value_heads": 4, "moe_intermediate_size": 1024, "num_experts_per_tok": 6,
         "n_shared_experts": 1, "n_routed_experts": 128, "first_k_dense_replace": 1,
         "head_dim": 64})",
     32'152'648'064 + 2'304, 19'456, 0},
    // DeepSeek-V4 as its class has it: 23 layers of entries of 128 tokens and 20 of entries of 4,
    // which keep keys to choose by; 40 routers with a number for each expert
    {R"({"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43,
         "n_routed_experts": 256, "num_experts_per_tok": 6})",
     284'325'869'015 + 40 * 256, (43 * 512 + 23 * 512 / 128 + 20 * (512 + 128) / 4) * 2, 0},
    // Two of Granite's kind: every fourth layer sees everything, and norms behind both halves
    {R"({"model_type": "granite_swa", "hidden_size": 2560, "num_hidden_layers": 24,
         "num_attention_heads": 20, "intermediate_size": 8192, "vocab_size": 100352})",
     2'144'463'840, 24 * 2 * 4 * 128 * 2, 0},
    // Mellum 2 as its class has it, all layers seeing everything
    {R"({"model_type": "mellum", "vocab_size": 98304, "hidden_size": 2304, "num_hidden_layers": 28,
         "num_attention_heads": 32, "num_local_experts": 64, "num_experts_per_tok": 8,
         "moe_intermediate_size": 896, "sliding_window": 1024})",
     12'149'923'072, 28 * 2 * 4 * 128 * 2, 0},
    // Cohere's mixture: two dense layers of another width before the others
    {R"({"model_type": "cohere2_moe", "vocab_size": 256000, "hidden_size": 4096,
         "intermediate_size": 1536, "num_hidden_layers": 32, "num_attention_heads": 32,
         "num_key_value_heads": 8, "num_experts": 128, "num_experts_per_tok": 8,
         "num_shared_experts": 4, "first_k_dense_replace": 2,
         "prefix_dense_intermediate_size": 12288})",
     77'451'104'256, 32 * 2 * 8 * 128 * 2, 0},
    // Laguna: more heads in layers with a window; a gate for each head, or for each number
    {R"({"model_type": "laguna", "vocab_size": 100352, "hidden_size": 2048, "num_hidden_layers": 4,
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                         "sliding_attention"],
         "num_attention_heads_per_layer": [48, 64, 64, 64]})",
     3'031'420'672, 4 * 2 * 8 * 128 * 2, 0},
    {R"({"model_type": "laguna", "vocab_size": 100352, "hidden_size": 2048, "num_hidden_layers": 4,
         "gating": "per-element", "attention_bias": true})",
     3'056'135'936, 4 * 2 * 8 * 128 * 2, 0},
    // MiniMax-M3 as published files say it: three of six layers choose tokens by keys of 128
    {R"({"model_type": "minimax_m3_vl_text", "hidden_size": 6144, "num_hidden_layers": 6,
         "hidden_act": "swigluoai", "moe_layer_freq": [0, 0, 0, 1, 1, 1],
         "sparse_attention_config": {
           "sparse_num_index_heads": 4, "sparse_index_dim": 128, "sparse_block_size": 128,
           "sparse_topk_blocks": 16, "sparse_attention_freq": [0, 0, 0, 1, 1, 1]}})",
     25'706'971'392 + 3 * 128, (6 * 2 * 4 * 128 + 3 * 128) * 2, 0},
    // Step 3.5 as its own file says it, a next-token layer behind the others in the lists
    {R"({"model_type": "step3p5", "vocab_size": 128896, "hidden_size": 4096, "num_hidden_layers": 4,
         "num_attention_groups": 8, "moe_num_experts": 288, "moe_top_k": 8,
         "num_nextn_predict_layers": 1, "moe_layers_enum": "2,3,4", "sliding_window": 512,
         "attention_other_setting": {"attention_type": "sliding_attention",
                                     "num_attention_heads": 96, "num_attention_groups": 8,
                                     "head_dim": 128},
         "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                         "sliding_attention", "sliding_attention"]})",
     10'830'386'176 + 2 * 288, 4 * 2 * 8 * 128 * 2, 0},
    {R"({"model_type": "step3p5", "hidden_size": 4096, "num_hidden_layers": 5,
         "mlp_bias": true, "attention_bias": true})",
     10'943'011'072 + 2 * 288, 5 * 2 * 8 * 128 * 2, 0},
    {R"({"model_type": "hyperclovax", "hidden_size": 4096, "num_hidden_layers": 32,
         "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000})",
     6'738'677'760, 32 * 2 * 4096 * 2, 0},
};

class CountedModel : public ::testing::TestWithParam<Counted> {};
INSTANTIATE_TEST_SUITE_P(Configs, CountedModel, ::testing::ValuesIn(kCounted));

TEST_P(CountedModel, HasParametersKeysAndState) {
  const ModelShape model = from_config(config(GetParam().config));
  EXPECT_EQ(model.num_parameters(), GetParam().parameters);
  EXPECT_EQ(model.kv_bytes_per_token(16), GetParam().kv_bytes);
  EXPECT_EQ(model.state_bytes_per_sequence(), GetParam().state_bytes);
  EXPECT_EQ(model_shape_from_json(to_json(model), "plan.json: model"), model);
}

TEST(LayerKinds, AreSaidOfModelsWhoseLayersAreNotAlike) {
  EXPECT_EQ(shipped("qwen3-next-80b-a3b").layer_kinds(),
            "36 of gated delta net, experts; 12 of attention, experts");
  EXPECT_EQ(shipped("nemotron-h-56b").layer_kinds(), "54 of mamba2; 54 of dense; 10 of attention");
  EXPECT_EQ(shipped("gemma-3n-e4b").layer_kinds(),
            "16 of attention to 512 tokens, dense; 4 of attention, dense; 12 of attention to 512 "
            "tokens with shared keys, dense; 3 of attention with shared keys, dense");
  EXPECT_EQ(shipped("deepseek-v3.2").layer_kinds(),
            "3 of latent attention to 2048 chosen tokens, dense; 58 of latent attention to 2048 "
            "chosen tokens, experts");
  EXPECT_EQ(shipped("deepseek-v4-flash").layer_kinds(),
            "2 of latent attention to 128 tokens, experts; 21 of latent attention to 128 tokens "
            "and 512 chosen entries of 4, experts; 20 of latent attention to 128 tokens and "
            "entries of 128, experts");
  EXPECT_EQ(shipped("llama-3-8b").layer_kinds(), "");
  EXPECT_EQ(kind_of(shipped("llama-3-8b").layer(0)), "attention, dense");
}

TEST(LayerKinds, OfAttentionThatIsNotAlike) {
  const ModelShape chosen = from_config(config(R"({
    "model_type": "minimax_m3_vl_text", "hidden_size": 6144, "num_hidden_layers": 3,
    "mlp_layer_types": ["dense", "sparse", "sparse"], "index_topk_blocks": 8,
    "layer_types": ["full_attention", "full_attention", "minimax_m3_sparse"]})"));
  EXPECT_EQ(chosen.layer_kinds(),
            "1 of attention, dense; 1 of attention, experts; 1 of attention to 1024 chosen tokens, "
            "experts");
  const ModelShape windows = from_config(config(R"({
    "model_type": "cohere2_moe", "vocab_size": 64, "hidden_size": 64, "intermediate_size": 32,
    "num_hidden_layers": 6, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "first_k_dense_replace": 2, "sliding_window": 256})"));
  EXPECT_EQ(windows.layer_kinds(),
            "2 of attention, dense; 3 of attention to 256 tokens, experts; 1 of attention, "
            "experts");
  // The next-token layer behind two others is dense.
  const ModelShape guesses = from_config(config(R"({"model_type": "step3p5", "hidden_size": 64,
    "num_hidden_layers": 2, "moe_layers_enum": "1", "num_nextn_predict_layers": 1})"));
  EXPECT_EQ(guesses.next_token_parameters, guesses.layer(0).parameters() + 2 * 64 * 64 + 3 * 64);
  const auto why = [](std::string_view text) { return refusal(config(text)).message(); };
  EXPECT_THAT(why(R"({"model_type": "laguna", "vocab_size": 64, "hidden_size": 64,
                      "num_hidden_layers": 2, "num_attention_heads_per_layer": [48, 63]})"),
              HasSubstr("63 heads do not split evenly over 8"));
  EXPECT_THAT(why(R"({"model_type": "laguna", "vocab_size": 64, "hidden_size": 64,
                      "num_hidden_layers": 2, "num_experts": 4})"),
              HasSubstr("the usual 8 is outside [1, 4]; write it"));
  EXPECT_THAT(why(R"({"model_type": "step3p5", "hidden_size": 64, "num_hidden_layers": 4,
                      "moe_layers_enum": "2;3"})"),
              HasSubstr("whole numbers with commas"));
}

// By hand: 36 layers of 32 matrices of 128 x 128 in FP32, and three inputs of a convolution over
// the 8,192 channels of queries, keys and values; 12 layers of 2 heads of 256.
TEST(LayerKinds, StateAndKeysOfQwen3Next) {
  const ModelShape model = shipped("qwen3-next-80b-a3b");
  EXPECT_EQ(model.state_bytes_per_sequence(), 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 2));
  EXPECT_EQ(model.kv_bytes_per_token(16), 12 * 2 * 2 * 256 * 2);
  EXPECT_EQ(model.kv_bytes_per_token(8), 12 * 2 * 2 * 256);
  EXPECT_FALSE(model.layer(0).attends());
  EXPECT_TRUE(model.layer(3).attends());
  EXPECT_FALSE(model.layer(3).state.has_value());
}

// The published file has 284,332,230,231 parameters in transformers 5.24, to which come 256 numbers
// beside each router that has any.
TEST(LayerKinds, EntriesOfDeepSeekV4) {
  const ModelShape model = shipped("deepseek-v4-flash");
  EXPECT_EQ(model.num_parameters(), 284'332'230'231 + 40 * 256);
  EXPECT_EQ(model.max_context_tokens, 1 << 20);
  const LayerShape &windowed = model.layer(0), &sparse = model.layer(2), &heavy = model.layer(3);
  EXPECT_EQ(kv_cache_bytes(sparse, 2, 100, 16), 2 * 100 * 512 * 2);
  EXPECT_EQ(kv_entry_bytes(windowed, 2, 4096, 16), 0);
  EXPECT_EQ(kv_entry_bytes(sparse, 2, 4096, 16), 2 * 1024 * (512 + 128) * 2);
  EXPECT_EQ(kv_entry_bytes(heavy, 2, 4096, 16), 2 * 32 * 512 * 2);
  EXPECT_EQ(model_shape_from_json(to_json(model), "plan.json: model"), model);
}

// DeepSeek publishes 11.5 billion parameters of the layer for drafts, beside copies of embeddings.
TEST(LayerKinds, LayersForDraftsAreInNoOtherCount) {
  const ModelShape model = shipped("deepseek-v3");
  EXPECT_EQ(model.next_token_layers, 1);
  EXPECT_NEAR(static_cast<double>(model.next_token_parameters), 11.5e9, 0.15e9);
  Json config = test::shipped_json("deepseek-v3").at("config");
  config["num_nextn_predict_layers"] = 0;
  ModelShape without = from_config(config);
  EXPECT_EQ(without.next_token_layers, 0);
  EXPECT_EQ(without.num_parameters(), model.num_parameters());
  EXPECT_EQ(without.kv_bytes_per_token(16), model.kv_bytes_per_token(16));
  config["num_nextn_predict_layers"] = 3;
  EXPECT_EQ(from_config(config).next_token_parameters, 3 * model.next_token_parameters);
  config["num_mtp_layers"] = 2;
  EXPECT_THAT(refusal(config).what(), HasSubstr("2 contradicts num_nextn_predict_layers = 3"));
  config["num_mtp_layers"] = 65;
  EXPECT_THAT(refusal(config).what(), HasSubstr("65 is outside [0, 64]"));
  EXPECT_EQ(shipped("qwen3.5-35b-a3b").next_token_layers, 1);
  EXPECT_EQ(shipped("kimi-k2").next_token_layers, 0);
  // The checkpoint on the hub holds 685 billion, with copies of both embeddings of the layer.
  EXPECT_NEAR(static_cast<double>(model.num_parameters() + model.next_token_parameters +
                                  2 * model.token_embedding_parameters),
              684.5e9, 0.1e9);
}

// Nemotron 3 guesses with a block of attention and one of experts; LongCat with half of a layer,
// without experts (the readers of vLLM, nemotron_h_mtp and longcat_flash_mtp).
TEST(LayerKinds, LayersForDraftsNeedNotBeLikeTheLast) {
  Json config = test::shipped_json("nemotron-3-nano-30b-a3b").at("config");
  config["num_nextn_predict_layers"] = 1;
  config["mtp_hybrid_override_pattern"] = "*E";
  const ModelShape model = from_config(config);
  std::int64_t attention = 0, experts = 0;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    if (kind_of(model.layer(i)) == "attention") attention = model.layer(i).parameters();
    if (kind_of(model.layer(i)) == "experts") experts = model.layer(i).parameters();
  }
  ASSERT_GT(attention, 0);
  ASSERT_GT(experts, attention);
  const std::int64_t hidden = model.hidden_size, joint = 2 * hidden * hidden + 3 * hidden;
  EXPECT_EQ(model.next_token_parameters, attention + experts + joint);
  config.erase("mtp_hybrid_override_pattern");
  EXPECT_EQ(from_config(config), model);
  config["mtp_layers_block_type"] = {"full_attention"};
  EXPECT_EQ(from_config(config).next_token_parameters, attention + joint);
  config["mtp_hybrid_override_pattern"] = "*X";
  EXPECT_THAT(refusal(config).what(),
              HasSubstr("mtp_hybrid_override_pattern: *X has letters that are not understood"));

  const ModelShape longcat = from_config(Json::parse(R"({
    "model_type": "longcat_flash", "hidden_size": 64, "num_layers": 2, "num_attention_heads": 4,
    "q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 8, "ffn_hidden_size": 128, "expert_ffn_hidden_size": 32, "n_routed_experts": 8,
    "zero_expert_num": 4, "moe_topk": 3, "vocab_size": 100, "num_nextn_predict_layers": 1})"));
  const std::int64_t queries = 64 * 16 + 16 + 16 * 4 * 12, keys = 64 * 12 + 8 + 8 * 4 * 16;
  EXPECT_EQ(longcat.next_token_parameters,
            queries + keys + 4 * 8 * 64 + 3 * 64 * 128 + 2 * 64 + 2 * 64 * 64 + 3 * 64);
}

TEST(LayerKinds, AnUnknownTypeIsRefusedWithWhatTheNearestFamilyWouldLeaveOut) {
  Json config = test::shipped_json("llama-3.1-8b").at("config");
  config["model_type"] = "zephyrnet";
  config.erase("architectures");
  config["num_memory_slots"] = 64;
  config["use_memory_gate"] = true;
  config["is_causal"] = false;
  EXPECT_THAT(refusal(config).what(),
              HasSubstr("Nearest is llama, by which it has 8.03 B parameters; left out would be "
                        "what these keys say: num_memory_slots, use_memory_gate; "));
  config["hidden_size"] = "wide";
  EXPECT_THAT(refusal(config).what(), Not(HasSubstr("Nearest")));
  EXPECT_EQ(refusal(config).code(), ErrorCode::unsupported);
  Json encoder = test::shipped_json("llama-3.1-8b").at("config");
  encoder["model_type"] = "bert";
  EXPECT_THAT(refusal(encoder).what(), HasSubstr("(an encoder) is not understood; "));
}

TEST(LayerKinds, LayersThatShareKeysKeepNone) {
  const ModelShape model = shipped("gemma-3n-e4b");
  EXPECT_EQ(kv_values_per_token(model.layer(19)), 2 * 2 * 256);
  EXPECT_EQ(kv_values_per_token(model.layer(20)), 0);
  EXPECT_EQ(model.layer(20).num_kv_heads, 2);
  EXPECT_EQ(model.layer(20).linears[1].name, "o_proj");
  EXPECT_EQ(model.layer_embedding_parameters, std::int64_t{262144} * 35 * 256);
}

TEST(LayerKinds, BlocksThatASearchHasMade) {
  const Json base = config(R"({"model_type": "nemotron-nas", "hidden_size": 8192,
      "num_hidden_layers": 3, "num_attention_heads": 64, "num_key_value_heads": null,
      "intermediate_size": null, "vocab_size": 128256, "max_position_embeddings": 131072,
      "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": false, "replace_with_linear": false},
         "ffn": {"ffn_mult": 5.25, "no_op": false, "replace_with_linear": false}},
        {"attention": {"n_heads_in_group": null, "no_op": true, "replace_with_linear": false},
         "ffn": {"ffn_mult": 0.5, "no_op": false, "replace_with_linear": false}},
        {"attention": {"n_heads_in_group": null, "no_op": false, "replace_with_linear": true},
         "ffn": {"ffn_mult": 1.3125, "no_op": false, "replace_with_linear": false}}]})");
  const ModelShape model = from_config(base);
  EXPECT_EQ(model.kv_bytes_per_token(16), 2 * 8 * 128 * 2);
  EXPECT_EQ(model.ffn_size, 28672);
  EXPECT_FALSE(model.layer(1).attends());
  EXPECT_EQ(model.layer(1).other_parameters, 8192);
  EXPECT_EQ(model.layer(1).parameters(), 3 * 8192 * 2816 + 8192);
  EXPECT_EQ(model.layer(2).parameters(), 8192 * 8192 + 3 * 8192 * 7168 + 2 * 8192);
  Json short_of = base;
  short_of["num_hidden_layers"] = 4;
  EXPECT_THAT(refusal(short_of).what(), HasSubstr("an array of 4 blocks"));
  Json nothing = base;
  nothing["block_configs"][1]["ffn"]["no_op"] = true;
  EXPECT_THAT(refusal(nothing).what(), HasSubstr("does nothing"));
}

TEST(LayerKinds, ListsThatDoNotFitAreRefusedByName) {
  const auto changed = [](const char* name, const char* key, Json value) {
    Json json = test::shipped_json(name).at("config");
    json[key] = std::move(value);
    return refusal(json);
  };
  EXPECT_THAT(changed("qwen3-next-80b-a3b", "layer_types", {"full_attention"}).what(),
              HasSubstr("an array of 48 names"));
  EXPECT_THAT(changed("nemotron-h-56b", "hybrid_override_pattern", "M-X").what(),
              HasSubstr("M-X has letters that are not understood"));
  EXPECT_THAT(changed("nemotron-h-56b", "num_hidden_layers", 117).what(),
              HasSubstr("117 where 118 blocks are listed"));
  EXPECT_THAT(changed("minimax-m1", "attn_type_list", {0, 1}).what(),
              HasSubstr("2 entries for 80 layers"));
  EXPECT_THAT(changed("gemma-3n-e4b", "intermediate_size", {16384}).what(),
              HasSubstr("1 numbers for 35 layers"));
  EXPECT_THAT(changed("granite-4.0-h-small", "mamba_d_head", 128).what(),
              HasSubstr("128 heads of 128 are not the 8192 channels"));
  EXPECT_THAT(changed("deepseek-v3.2", "index_topk", nullptr).what(), HasSubstr("index_topk"));
  EXPECT_THAT(changed("deepseek-v4-flash", "compress_ratios", {0, 4}).what(),
              HasSubstr("2 numbers for 43 layers"));
  EXPECT_THAT(changed("deepseek-v4-flash", "compress_ratios", std::vector<int>(43, 8)).what(),
              HasSubstr("8 is not understood; known: 0, 1, 4, 128"));
  EXPECT_THAT(changed("deepseek-v4-flash", "num_key_value_heads", 2).what(),
              HasSubstr("num_key_value_heads: all heads of this attention share one"));
  EXPECT_THAT(changed("deepseek-v4-flash", "o_groups", 7).what(),
              HasSubstr("64 heads do not split into 7 groups"));
  EXPECT_THAT(changed("deepseek-v4-flash", "qk_rope_head_dim", 512).what(),
              HasSubstr("512 of the 512 of a head"));
  EXPECT_THAT(changed("kimi-linear-48b-a3b", "linear_attn_config", {{"num_heads", 32}}).what(),
              HasSubstr("full_attn_layers"));
  EXPECT_EQ(changed("gemma-4-26b-a4b", "use_bidirectional_attention", "all").code(),
            ErrorCode::unsupported);
}

TEST(PythonJson, NumbersThatJsonLacksBecomeTexts) {
  const Json json =
      config(R"({"a": [0.0, Infinity, -Infinity], "b": NaN, "Infinity": "NaN, \"Infinity"})");
  EXPECT_EQ(json.at("a").at(1), "Infinity");
  EXPECT_EQ(json.at("a").at(2), "-Infinity");
  EXPECT_EQ(json.at("b"), "NaN");
  EXPECT_EQ(json.at("Infinity"), "NaN, \"Infinity");
  EXPECT_THAT(refusal(config(R"({"model_type": "mamba", "num_hidden_layers": Infinity})")).what(),
              HasSubstr("num_hidden_layers: 'Infinity' where an integer"));
  EXPECT_THAT(error_of([] { parse_json("[Infinity]", "x"); }).what(), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of([] { config("[Infinit]"); }).what(), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace tessera::layer_kinds_test
