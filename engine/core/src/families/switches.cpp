// Families that are Llama's layer with switches. Defaults are those of the config classes of
// transformers 5 (of the models' own code where it has none).
#include "switches.h"

#include <map>
#include <string_view>

namespace tessera::hf {
namespace {

constexpr Switch kAlways{.on = true};
constexpr Switch kAttentionBias{.key = "attention_bias"};
constexpr Switch kMlpBias{.key = "mlp_bias"};
constexpr Switch kUseBias{.key = "use_bias"};
constexpr Windows kWindowWhereWritten{.key = "sliding_window"};

using Table = std::map<std::string_view, Switches>;

// Llama with other defaults, other biases or other norms.
void add_dense(Table& table) {
  table["arcee"] = {.sizes = {.max_context_tokens = 4096},
                    .gated = false,
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .ffn_bias = kMlpBias};
  table["apertus"] = {.sizes = {.max_context_tokens = 65536},
                      .gated = false,
                      .qkv_bias = kAttentionBias,
                      .output_bias = kAttentionBias,
                      .qk_norm = QkNorm::head_width,
                      .activation_numbers = 2};
  table["bitnet"] = {.sizes = {.max_context_tokens = 2048},
                     .qkv_bias = kAttentionBias,
                     .output_bias = kAttentionBias,
                     .inner_norms = true};
  table["baichuan"] = {.sizes = {.max_context_tokens = 4096}};
  table["cohere"] = {.sizes = {.max_context_tokens = 8192, .tied_embeddings = true},
                     .norms = 1,
                     .qkv_bias = kAttentionBias,
                     .output_bias = kAttentionBias,
                     .qk_norm = QkNorm::each_head,
                     .qk_norm_key = "use_qk_norm"};
  table["cohere2"] = {.sizes = {.max_context_tokens = 8192, .tied_embeddings = true},
                      .norms = 1,
                      .qkv_bias = kAttentionBias,
                      .output_bias = kAttentionBias,
                      .windows = {.key = "sliding_window",
                                  .tokens = 4096,
                                  .period = 4,
                                  .period_key = "sliding_window_pattern"}};
  table["cwm"] = {
      .sizes = {.max_context_tokens = 131072, .num_kv_heads = 8, .head_dim = 128},
      .windows = {
          .key = "sliding_window", .tokens = 8192, .period = 4, .period_begins_full = true}};
  table["ernie4_5"] = {
      .sizes = {.max_context_tokens = 131072, .num_kv_heads = 2, .tied_embeddings = true},
      .qkv_bias = kUseBias,
      .output_bias = kUseBias,
      .ffn_bias = kUseBias};
  table["exaone"] = {.sizes = {.max_context_tokens = 2048}};
  table["exaone4"] = {.sizes = {.max_context_tokens = 2048, .num_kv_heads = 32},
                      .qk_norm = QkNorm::head_width,
                      .windows = {.key = "sliding_window", .tokens = 4096, .period = 4}};
  table["gemma"] = {.sizes = {.max_context_tokens = 8192,
                              .num_kv_heads = 16,
                              .head_dim = 256,
                              .tied_embeddings = true},
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias};
  // Norms before and after attention, and the same for the feed-forward network.
  table["gemma2"] = {.sizes = {.max_context_tokens = 8192,
                               .num_kv_heads = 4,
                               .head_dim = 256,
                               .tied_embeddings = true},
                     .norms = 4,
                     .qkv_bias = kAttentionBias,
                     .output_bias = kAttentionBias,
                     .windows = {.key = "sliding_window", .tokens = 4096, .period = 2}};
  // Only queries, keys and values have biases.
  table["glm"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 2, .head_dim = 128},
                  .qkv_bias = {.on = true, .key = "attention_bias"}};
  table["glm4"] = table["glm"];
  table["glm4"].norms = 4;
  table["granite"] = {.sizes = {.max_context_tokens = 2048},
                      .qkv_bias = kAttentionBias,
                      .output_bias = kAttentionBias,
                      .ffn_bias = kMlpBias};
  table["granite_swa"] = table["granite"];
  table["granite_swa"].sizes = {
      .max_context_tokens = 8192, .num_kv_heads = 4, .tied_embeddings = true};
  table["granite_swa"].sinks = true;
  table["granite_swa"].windows = {
      .key = "sliding_window", .tokens = 128, .period = 4, .period_begins_full = true};
  table["hyperclovax"] = table["granite"];
  table["hyperclovax"].outer_norms = {.on = true, .key = "use_post_norm"};
  table["helium"] = {.sizes = {.max_context_tokens = 4096, .num_kv_heads = 20, .head_dim = 128},
                     .qkv_bias = kAttentionBias,
                     .ffn_bias = kMlpBias};
  table["hunyuan_v1_dense"] = {.sizes = {.max_context_tokens = 2048},
                               .qkv_bias = kAttentionBias,
                               .output_bias = kAttentionBias,
                               .qk_norm = QkNorm::head_width};
  table["internlm"] = {.sizes = {.max_context_tokens = 2048},
                       .qkv_bias = {.on = true, .key = "bias"},
                       .output_bias = {.on = true, .key = "bias"}};
  table["internlm2"] = {.sizes = {.max_context_tokens = 2048},
                        .qkv_bias = {.key = "bias"},
                        .output_bias = {.key = "bias"}};
  table["internlm3"] = {.sizes = {.max_context_tokens = 32768, .num_kv_heads = 2, .head_dim = 128},
                        .qkv_bias = {.key = "qkv_bias"},
                        .output_bias = {.key = "bias"},
                        .ffn_bias = {.key = "bias"}};
  table["llama"] = {.sizes = {.max_context_tokens = 2048},
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .ffn_bias = kMlpBias};
  // A window unless the key says null.
  table["mistral"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 8},
                      .windows = {.key = "sliding_window", .tokens = 4096}};
  table["ministral"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 8},
                        .windows = {.key = "sliding_window", .tokens = 4096}};
  table["ministral3"] = {
      .sizes = {.max_context_tokens = 262144, .num_kv_heads = 8, .head_dim = 128},
      .windows = kWindowWhereWritten};
  table["nemotron"] = {.sizes = {.max_context_tokens = 4096},
                       .gated = false,
                       .norm_bias = kAlways,
                       .qkv_bias = kAttentionBias,
                       .output_bias = kAttentionBias,
                       .ffn_bias = kMlpBias};
  table["olmo"] = {.sizes = {.max_context_tokens = 2048},
                   .norm_weight = false,
                   .qkv_bias = kAttentionBias,
                   .output_bias = kAttentionBias};
  table["olmo2"] = {.sizes = {.max_context_tokens = 2048},
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .qk_norm = QkNorm::all_heads};
  table["olmo3"] = table["olmo2"];
  table["olmo3"].windows = {.key = "sliding_window", .tokens = 4096, .period = 4};
  table["orion"] = {.sizes = {.max_context_tokens = 4096}, .norm_bias = kAlways};
  table["phi3"] = {.sizes = {.max_context_tokens = 4096}, .windows = kWindowWhereWritten};
  table["seed_oss"] = {.sizes = {.max_context_tokens = 524288, .num_kv_heads = 8, .head_dim = 128},
                       .qkv_bias = {.on = true, .key = "attention_bias"},
                       .output_bias = {.key = "attention_out_bias"},
                       .ffn_bias = kMlpBias};
  table["smollm3"] = {
      .sizes = {.max_context_tokens = 32768, .num_kv_heads = 4, .tied_embeddings = true},
      .qkv_bias = kAttentionBias,
      .output_bias = kAttentionBias,
      .ffn_bias = kMlpBias,
      .windows = kWindowWhereWritten};
  table["stablelm"] = {.sizes = {.max_context_tokens = 4096, .num_kv_heads = 32},
                       .parallel = {.key = "use_parallel_residual"},
                       .norm_bias = kAlways,
                       .qkv_bias = {.key = "use_qkv_bias"},
                       .qk_norm = QkNorm::each_head,
                       .qk_norm_key = "qk_layernorm"};
  table["vaultgemma"] = table["gemma2"];
  table["vaultgemma"].norms = 2;
}

// GPT's descendants: no gate, LayerNorms with biases, many biases.
void add_ungated(Table& table) {
  // Attention and feed-forward network share a norm.
  table["phi"] = {.sizes = {.max_context_tokens = 2048},
                  .gated = false,
                  .norms = 1,
                  .norm_bias = kAlways,
                  .qkv_bias = kAlways,
                  .output_bias = kAlways,
                  .ffn_bias = kAlways,
                  .head_bias = kAlways,
                  .qk_norm = QkNorm::head_width_and_bias,
                  .qk_norm_key = "qk_layernorm"};
  table["gpt_neox"] = {.sizes = {.max_context_tokens = 2048},
                       .gated = false,
                       .norm_bias = kAlways,
                       .qkv_bias = {.on = true, .key = "attention_bias"},
                       .output_bias = {.on = true, .key = "attention_bias"},
                       .ffn_bias = kAlways};
  table["jais2"] = {.sizes = {.max_context_tokens = 8192},
                    .gated = false,
                    .norm_bias = kAlways,
                    .qkv_bias = {.on = true, .key = "attention_bias"},
                    .output_bias = {.on = true, .key = "attention_bias"},
                    .ffn_bias = {.on = true, .key = "mlp_bias"}};
  table["persimmon"] = table["gpt_neox"];
  table["persimmon"].sizes.max_context_tokens = 16384;
  table["persimmon"].qkv_bias = table["persimmon"].output_bias = kAlways;
  table["persimmon"].qk_norm = QkNorm::head_width_and_bias;
  table["persimmon"].qk_norm_key = "qk_layernorm";
  table["persimmon"].qk_norm_unless_written = true;
  table["gpt_bigcode"] = {
      .sizes = {.max_context_tokens = 1024, .tied_embeddings = true, .ffn_ratio = 4},
      .gated = false,
      .norm_bias = kAlways,
      .qkv_bias = kAlways,
      .output_bias = kAlways,
      .ffn_bias = kAlways,
      .learned_positions = kAlways,
      .multi_query = {.on = true, .key = "multi_query"}};
  table["starcoder2"] = {
      .sizes = {.max_context_tokens = 4096, .num_kv_heads = 2, .tied_embeddings = true},
      .gated = false,
      .norm_bias = kAlways,
      .qkv_bias = {.on = true, .key = "use_bias"},
      .output_bias = {.on = true, .key = "use_bias"},
      .ffn_bias = {.on = true, .key = "use_bias"},
      .windows = kWindowWhereWritten};
}

void add_experts(Table& table) {
  // Trinity
  table["afmoe"] = {.sizes = {.max_context_tokens = 16384, .head_dim = 128},
                    .norms = 4,
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .qk_norm = QkNorm::head_width,
                    .output_gate = true,
                    .windows = {.key = "sliding_window",
                                .tokens = 1024,
                                .period = 4,
                                .period_key = "global_attn_every_n_layers"},
                    .experts = {.total = "num_experts",
                                .width = "moe_intermediate_size",
                                .shared = "num_shared_experts",
                                .first_dense = "num_dense_layers",
                                .num_dense = 1,
                                .router_bias = true}};
  // Ling and Ring
  table["bailing_moe"] = {.sizes = {.max_context_tokens = 2048},
                          .qkv_bias = {.key = "use_qkv_bias"},
                          .output_bias = kUseBias,
                          .qk_norm = QkNorm::head_width,
                          .qk_norm_key = "use_qk_norm",
                          .experts = {.total = "num_experts",
                                      .width = "moe_intermediate_size",
                                      .shared = "num_shared_experts",
                                      .first_dense = "first_k_dense_replace"}};
  table["bailing_moe_v2"] = table["bailing_moe"];
  table["bailing_moe_v2"].experts.router_bias = true;
  // Command A+: Command R7B's attention, and periods of windows of their own where it is dense.
  table["cohere2_moe"] = table["cohere2"];
  table["cohere2_moe"].sizes.head_dim = 128;
  table["cohere2_moe"].windows.first = "first_k_dense_replace";
  table["cohere2_moe"].windows.first_period_key = "prefix_dense_sliding_window_pattern";
  table["cohere2_moe"].experts = {.total = "num_experts",
                                  .shared = "num_shared_experts",
                                  .first_dense = "first_k_dense_replace",
                                  .dense_width = "prefix_dense_intermediate_size"};
  // DeepSeekMoE, whose attention is Llama's.
  table["deepseek"] = {.sizes = {.max_context_tokens = 2048},
                       .experts = {.total = "n_routed_experts",
                                   .width = "moe_intermediate_size",
                                   .shared = "n_shared_experts",
                                   .first_dense = "first_k_dense_replace",
                                   .step = "moe_layer_freq"}};
  table["dots1"] = table["deepseek"];
  table["dots1"].sizes.num_kv_heads = 32;
  table["dots1"].qkv_bias = table["dots1"].output_bias = kAttentionBias;
  table["dots1"].qk_norm = QkNorm::head_width;
  table["dots1"].experts.step = nullptr;
  table["dots1"].experts.router_bias = true;
  table["ernie4_5_moe"] = table["ernie4_5"];
  table["ernie4_5_moe"].sizes.num_kv_heads = 4;
  table["ernie4_5_moe"].experts = {.total = "moe_num_experts",
                                   .active = "moe_k",
                                   .width = "moe_intermediate_size",
                                   .shared = "moe_num_shared_experts",
                                   .num_shared = 2,
                                   .first_dense = "moe_layer_start_index",
                                   .num_dense = 1,
                                   .last = "moe_layer_end_index",
                                   .step = "moe_layer_interval",
                                   .step_ends = true,
                                   .router_bias = true};
  table["exaone_moe"] = {.sizes = {.max_context_tokens = 2048, .num_kv_heads = 32},
                         .qk_norm = QkNorm::head_width,
                         .windows = {.key = "sliding_window",
                                     .tokens = 4096,
                                     .period = 4,
                                     .period_key = "sliding_window_pattern"},
                         .experts = {.total = "num_experts",
                                     .width = "moe_intermediate_size",
                                     .shared = "num_shared_experts",
                                     .num_shared = 1,
                                     .first_dense = "first_k_dense_replace",
                                     .num_dense = 1,
                                     .router_bias = true}};
  table["flex_olmo"] = {.sizes = {.max_context_tokens = 4096},
                        .qkv_bias = kAttentionBias,
                        .output_bias = kAttentionBias,
                        .qk_norm = QkNorm::all_heads,
                        .experts = {.total = "num_experts"}};
  table["hy_v3"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 8, .head_dim = 128},
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .ffn_bias = kMlpBias,
                    .qk_norm = QkNorm::head_width,
                    .experts = {.total = "num_experts",
                                .width = "moe_intermediate_size",
                                .shared = "num_shared_experts",
                                .num_shared = 1,
                                .first_dense = "first_k_dense_replace",
                                .num_dense = 1,
                                .router_bias = true}};
  table["sarvam_moe"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 4},
                         .qkv_bias = kAttentionBias,
                         .output_bias = kAttentionBias,
                         .qk_norm = QkNorm::head_width,
                         .qk_norm_key = "use_qk_norm",
                         .qk_norm_unless_written = true,
                         .experts = {.total = "n_routed_experts",
                                     .width = "moe_intermediate_size",
                                     .shared = "n_shared_experts",
                                     .num_shared = 1,
                                     .first_dense = "first_k_dense_replace",
                                     .num_dense = 1,
                                     .router_bias = true}};
  table["granitemoe"] = {.sizes = {.max_context_tokens = 2048},
                         .qkv_bias = kAttentionBias,
                         .output_bias = kAttentionBias,
                         .experts = {.total = "num_local_experts"}};
  table["granitemoeshared"] = table["granitemoe"];
  table["granitemoeshared"].experts.shared_width = "shared_intermediate_size";
  // All layers see everything unless layer_types says more.
  table["mellum"] = {
      .sizes = {.max_context_tokens = 131072, .num_kv_heads = 4, .head_dim = 128, .ffn_size = 7168},
      .qkv_bias = kAttentionBias,
      .output_bias = kAttentionBias,
      .qk_norm = QkNorm::head_width,
      .windows = {.key = "sliding_window", .tokens = 1024, .period = 1},
      .experts = {.total = "num_experts", .width = "moe_intermediate_size"}};
  table["minimax_m2"] = {
      .sizes = {.max_context_tokens = 196608, .num_kv_heads = 8, .head_dim = 128},
      .qk_norm = QkNorm::all_heads,
      .experts = {.total = "num_local_experts", .router_bias = true}};
  table["mixtral"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 8},
                      .windows = kWindowWhereWritten,
                      .experts = {.total = "num_local_experts"}};
  table["olmoe"] = {.sizes = {.max_context_tokens = 4096},
                    .qkv_bias = kAttentionBias,
                    .output_bias = kAttentionBias,
                    .qk_norm = QkNorm::all_heads,
                    .experts = {.total = "num_experts"}};
  table["solar_open"] = {.sizes = {.max_context_tokens = 131072,
                                   .num_kv_heads = 8,
                                   .head_dim = 128,
                                   .ffn_size = 10240},
                         .qkv_bias = kAttentionBias,
                         .experts = {.total = "n_routed_experts",
                                     .width = "moe_intermediate_size",
                                     .shared = "n_shared_experts",
                                     .num_shared = 1,
                                     .first_dense = "first_k_dense_replace",
                                     .router_bias = true}};
  table["phimoe"] = {.sizes = {.max_context_tokens = 131072, .num_kv_heads = 8},
                     .norm_bias = kAlways,
                     .qkv_bias = kAttentionBias,
                     .output_bias = kAttentionBias,
                     .head_bias = {.key = "lm_head_bias"},
                     .windows = kWindowWhereWritten,
                     .experts = {.total = "num_local_experts"}};
}

}  // namespace

const Switches* find_switches(std::string_view family) {
  static const Table table = [] {
    Table made;
    add_dense(made);
    add_ungated(made);
    add_experts(made);
    return made;
  }();
  const auto found = table.find(family);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace tessera::hf
