// What families compute, beside what their shapes say already (switches.cpp). Defaults are those of
// the config classes of transformers 5; sources are its modeling_*.py.
#include "tessera/core/arithmetic.h"

#include <map>

#include "switches.h"

namespace tessera {
namespace {

constexpr Switch kAlways{.on = true};
constexpr Setting kLayerNormEps{1e-5, "layer_norm_eps"};
constexpr Setting kRmsEps5{1e-5, "rms_norm_eps"};

using Table = std::map<std::string_view, Arithmetic>;

// Llama's layer, with little beside it.
void add_llamas(Table& table) {
  for (const char* family :
       {"llama", "mistral", "ministral", "qwen2", "qwen3", "seed_oss", "internlm2"}) {
    table[family] = {};
  }
  table["internlm2"].epsilon = table["ministral"].epsilon = kRmsEps5;
  table["qwen3"].qk_norm = QkNorm::head_width;
  table["arcee"] = {.epsilon = kRmsEps5, .activation = "relu2"};
  table["ernie4_5"] = {.epsilon = kRmsEps5, .interleaved = kAlways};
  table["exaone4"] = {
      .epsilon = kRmsEps5, .places = NormPlaces::after, .rotary_layers = RotaryLayers::windows};
  table["helium"] = {.epsilon = {1e-8, "rms_norm_eps"}, .interleaved = kAlways};
  table["hunyuan_v1_dense"] = {.epsilon = kRmsEps5, .qk_norm_turned = true};
  table["phi3"] = {.epsilon = kRmsEps5};
  table["smollm3"] = {.theta = {2e6, "rope_theta"}, .rotary_layers = RotaryLayers::listed};
  table["glm"] = {.epsilon = {1.5625e-7, "rms_norm_eps"},
                  .interleaved = kAlways,
                  .rotary_part = {0.5, "partial_rotary_factor"}};
  table["glm4"] = table["glm"];
  table["glm4"].places = NormPlaces::both;
  table["granite"] = {.score_scale = {1, "attention_multiplier"},
                      .embedding_scale = {1, "embedding_multiplier"},
                      .residual_scale = {1, "residual_multiplier"},
                      .logit_divisor = {1, "logits_scaling"}};
  table["olmo"] = {.norm = Norm::layer, .epsilon = {1e-5}, .clip_key = "clip_qkv"};
  table["olmo2"] = {.epsilon = kRmsEps5, .places = NormPlaces::after};
  table["olmo3"] = table["olmo2"];
  table["olmo3"].plain_in_windows = true;
}

void add_gemmas(Table& table) {
  table["gemma"] = {.norm_offset = 1, .activation = "gelu_pytorch_tanh", .root_of_width = true};
  table["gemma2"] = table["gemma"];
  table["gemma2"].activation_key = "hidden_activation";
  table["gemma2"].places = NormPlaces::both;
  table["gemma2"].score_width = {256, "query_pre_attn_scalar"};
  table["gemma2"].score_cap = {50, "attn_logit_softcapping"};
  table["gemma2"].logit_cap = {30, "final_logit_softcapping"};
  table["gemma3"] = table["gemma2"];
  table["gemma3"].qk_norm = QkNorm::head_width;
  table["gemma3"].score_cap.value = table["gemma3"].logit_cap.value = 0;
  table["gemma3"].theta.value = 1e6;
  table["gemma3"].local_theta = {1e4, "rope_local_base_freq"};
  table["gemma4"] = table["gemma3"];
  table["gemma4"].norm_offset = 0;
  table["gemma4"].value_norm = table["gemma4"].layer_scale = true;
  table["gemma4"].score_scale = {1};
  table["gemma4"].experts_beside_network = {.key = "enable_moe_block"};
  table["gemma3n"] = table["gemma4"];
  table["gemma3n"].logit_cap.value = 30;
  table["gemma3n"].layer_scale = false;
  table["gemma3n"].experts_beside_network = {};
  table["gemma3n"].num_streams = "altup_num_inputs";
  table["gemma3n"].sparsity = "activation_sparsity_pattern";
  table["gemma3n"].only = {{true, "altup_correct_scale"}};
}

// LayerNorms, and of GPT's descendants biases and no gate.
void add_layer_norms(Table& table) {
  table["cohere"] = {.norm = Norm::layer,
                     .epsilon = kLayerNormEps,
                     .parallel = kAlways,
                     .shared_norm = true,
                     .interleaved = kAlways,
                     .logit_scale = {0.0625, "logit_scale"}};
  table["cohere2"] = table["cohere"];
  table["cohere2"].rotary_layers = RotaryLayers::windows;
  table["gpt_neox"] = {.norm = Norm::layer,
                       .epsilon = kLayerNormEps,
                       .parallel = {.on = true, .key = "use_parallel_residual"},
                       .rotary_part = {0.25, "rotary_pct"},
                       .theta = {1e4, "rotary_emb_base"},
                       .activation = "gelu"};
  table["nemotron"] = {.norm = Norm::layer,
                       .epsilon = {1e-5, "norm_eps"},
                       .norm_offset = 1,
                       .rotary_part = {0.5, "partial_rotary_factor"},
                       .activation = "relu2"};
  table["phi"] = {.norm = Norm::layer,
                  .epsilon = kLayerNormEps,
                  .parallel = kAlways,
                  .shared_norm = true,
                  .rotary_part = {0.5, "partial_rotary_factor"},
                  .activation = "gelu_new"};
  table["stablelm"] = {.norm = Norm::layer,
                       .epsilon = kLayerNormEps,
                       .parallel = {.key = "use_parallel_residual"},
                       .shared_norm = true,
                       .rotary_part = {0.25, "partial_rotary_factor"}};
  table["starcoder2"] = {
      .norm = Norm::layer, .epsilon = {1e-5, "norm_epsilon"}, .activation = "gelu_pytorch_tanh"};
}

// Without rotary positions, or of before there were conventions.
void add_gpts(Table& table) {
  const Arithmetic gpt = {.norm = Norm::layer,
                          .epsilon = {1e-5, "layer_norm_epsilon"},
                          .norm_bias = kAlways,
                          .activation = "gelu_new",
                          .activation_key = "activation_function"};
  table["gptj"] = gpt;
  table["gptj"].parallel = kAlways;
  table["gptj"].shared_norm = true;
  table["gptj"].interleaved = kAlways;
  table["gptj"].rotary_width = "rotary_dim";
  table["gpt2"] = gpt;
  table["gpt2"].positions = Positions::learned;
  table["gpt2"].scaled_scores.key = "scale_attn_weights";
  table["gpt2"].divided_by_layer = {.key = "scale_attn_by_inverse_layer_idx"};
  table["gpt_bigcode"] = table["gpt2"];
  table["gpt_bigcode"].activation = "gelu_pytorch_tanh";
  table["gpt_bigcode"].divided_by_layer = {};
  table["gpt_neo"] = gpt;
  table["gpt_neo"].positions = Positions::learned;
  table["gpt_neo"].scaled_scores = {};
  table["opt"] = gpt;
  table["opt"].epsilon = {1e-5};
  table["opt"].norms_first.key = "do_layer_norm_before";
  table["opt"].positions = Positions::learned;
  table["opt"].learned_offset = 2;
  table["opt"].activation = "relu";
  table["bloom"] = gpt;
  table["bloom"].embedding_norm = true;
  table["bloom"].positions = Positions::alibi;
  table["bloom"].activation = "gelu_pytorch_tanh";
  table["bloom"].activation_key = nullptr;
  table["bloom"].only = {{false, "apply_residual_connection_post_layernorm"}};
  table["falcon"] = gpt;
  table["falcon"].parallel = {.on = true, .key = "parallel_attn"};
  table["falcon"].alibi = {.key = "alibi"};
  table["falcon"].alibi_in_scale = true;
  table["falcon"].activation = "gelu";
  table["falcon"].activation_key = "activation";
  table["mpt"] = gpt;
  table["mpt"].norm_bias = {};
  table["mpt"].clip_key = "attn_config.clip_qkv";
  table["mpt"].positions = Positions::alibi;
  table["mpt"].score_scale = {0, "attn_config.softmax_scale"};
  table["mpt"].activation = "gelu";
  table["mpt"].activation_key = nullptr;
  table["mpt"].only = {{true, "attn_config.alibi"}, {false, "attn_config.prefix_lm"}};
}

void add_experts(Table& table) {
  const Routing sigmoid = {.sigmoid = true,
                           .corrected = true,
                           .normalise = {.key = "norm_topk_prob"},
                           .scale = {1, "routed_scaling_factor"},
                           .groups = "n_group",
                           .active_groups = "topk_group",
                           .best_of_group = 2};
  table["mixtral"] = {.epsilon = kRmsEps5};
  table["qwen2_moe"] = {.routing = {.normalise = {.key = "norm_topk_prob"}, .shared_gate = true}};
  table["qwen3_moe"] = {.qk_norm = QkNorm::head_width,
                        .routing = {.normalise = {.key = "norm_topk_prob"}}};
  table["qwen3_next"] = {
      .norm_offset = 1,
      .qk_norm = QkNorm::head_width,
      .state_by_head = true,
      .output_gate = true,
      .rotary_part = {0.25, "partial_rotary_factor"},
      .routing = {.normalise = {.on = true, .key = "norm_topk_prob"}, .shared_gate = true}};
  table["qwen3_5_moe"] = table["qwen3_next"];
  table["qwen3_5_moe"].state_by_head = false;
  table["qwen3_5_moe"].routing.normalise = {.on = true};
  table["qwen3_5"] = table["qwen3_5_moe"];
  table["olmoe"] = {.epsilon = kRmsEps5,
                    .clip_key = "clip_qkv",
                    .routing = {.normalise = {.key = "norm_topk_prob"}}};
  table["dots1"] = {.routing = sigmoid};
  table["glm4_moe"] = {.epsilon = kRmsEps5,
                       .qk_norm = QkNorm::head_width,
                       .qk_normed = {.key = "use_qk_norm"},
                       .rotary_part = {0.5, "partial_rotary_factor"},
                       .routing = sigmoid};
  table["glm4_moe"].routing.normalise.on = true;
  table["deepseek_v3"] = {.interleaved = {.on = true, .key = "rope_interleave"},
                          .routing = sigmoid};
  table["deepseek_v3"].routing.normalise.on = true;
  table["glm4_moe_lite"] = table["deepseek_v3"];
  table["glm4_moe_lite"].epsilon = kRmsEps5;
  // Whatever norm_topk_prob says: the class does not read it.
  table["deepseek_v2"] = {.interleaved = kAlways,
                          .routing = {.normalise = {.on = false},
                                      .scale = {1, "routed_scaling_factor"},
                                      .groups = "n_group",
                                      .active_groups = "topk_group",
                                      .grouped_where = {"topk_method", "group_limited_greedy"}}};
  table["ernie4_5_moe"] = table["ernie4_5"];
  table["ernie4_5_moe"].routing = {.corrected = true};
  table["llama4_text"] = {.epsilon = kRmsEps5,
                          .qk_norm = QkNorm::head_alone,
                          .qk_normed = {.on = true, .key = "use_qk_norm"},
                          .qk_norm_turned = true,
                          .interleaved = kAlways,
                          .theta = {500000, "rope_theta"},
                          .rotary_layers = RotaryLayers::listed,
                          .chunked = true,
                          .tempered = {.on = true, .key = "attn_temperature_tuning"},
                          .routing = {.sigmoid = true, .normalise = {}, .of_inputs = true}};
  table["granitemoe"] = table["granite"];
  table["granitemoeshared"] = table["granitemoe"];
  table["granitemoehybrid"] = table["granitemoe"];
  table["granitemoehybrid"].positions_key = "position_embedding_type";
  table["gpt_oss"] = {.epsilon = kRmsEps5,
                      .theta = {150000, "rope_theta"},
                      .sinks = true,
                      .activation_limit = {7, "swiglu_limit"}};
}

// Layers that keep a state.
void add_states(Table& table) {
  table["lfm2"] = {.epsilon = {1e-5, "norm_eps"},
                   .qk_norm = QkNorm::head_width,
                   .theta = {1e6, "rope_theta"},
                   .activation_key = nullptr};
  table["lfm2_moe"] = table["lfm2"];
  table["lfm2_moe"].routing = {.sigmoid = true,
                               .corrected = true,
                               .normalise = {.on = true, .key = "norm_topk_prob"},
                               .scale = {1, "routed_scaling_factor"}};
  table["lfm2_moe"].only = {{true, "use_expert_bias"}};
  table["nemotron_h"] = {.epsilon = {1e-5, "layer_norm_epsilon"},
                         .mamba2 = {.num_heads = "mamba_num_heads",
                                    .num_groups = "n_groups",
                                    .usual_groups = 8,
                                    .state = "ssm_state_size",
                                    .usual_state = 128,
                                    .kernel = "conv_kernel",
                                    .normed_by_groups = true},
                         .positions = Positions::none,
                         .activation = "relu2",
                         .activation_key = "mlp_hidden_act",
                         .routing = {.sigmoid = true,
                                     .corrected = true,
                                     .normalise = {.on = true, .key = "norm_topk_prob"},
                                     .scale = {1, "routed_scaling_factor"},
                                     .groups = "n_group",
                                     .active_groups = "topk_group",
                                     .best_of_group = 2}};
  table["falcon_h1"] = {.epsilon = kRmsEps5,
                        .mamba2 = {.norm = {.on = false, .key = "mamba_rms_norm"},
                                   .normed_by_groups = true,
                                   .gate_last = {.on = true, .key = "mamba_norm_before_gate"}},
                        .embedding_scale = {1, "embedding_multiplier"},
                        .logit_scale = {1, "lm_head_multiplier"},
                        .attention_in_scale = {1, "attention_in_multiplier"},
                        .attention_out_scale = {1, "attention_out_multiplier"},
                        .key_scale = {1, "key_multiplier"},
                        .state_in_scale = {1, "ssm_in_multiplier"},
                        .state_out_scale = {1, "ssm_out_multiplier"},
                        .state_part_scales = "ssm_multipliers",
                        .gate_scale = {1, "mlp_multipliers.0"},
                        .down_scale = {1, "mlp_multipliers.1"}};
  table["kimi_linear"] = {.epsilon = kRmsEps5,
                          .positions = Positions::none,
                          .routing = {.sigmoid = true,
                                      .corrected = true,
                                      .normalise = {.on = true, .key = "moe_renormalize"},
                                      .scale = {2.446, "routed_scaling_factor"},
                                      .groups = "num_expert_group",
                                      .active_groups = "topk_group",
                                      .best_of_group = 2}};
  table["jamba"] = {.normed_state_inputs = true,
                    .positions = Positions::none,
                    .routing = {.normalise = {.on = false}}};
}

const Table& rows() {
  static const Table table = [] {
    Table made;
    add_llamas(made);
    add_gemmas(made);
    add_layer_norms(made);
    add_gpts(made);
    add_experts(made);
    add_states(made);
    return made;
  }();
  return table;
}

}  // namespace

std::optional<Arithmetic> arithmetic_of(std::string_view family) {
  const auto found = rows().find(family);
  if (found == rows().end()) return std::nullopt;
  Arithmetic arithmetic = found->second;
  if (const hf::Switches* shape = hf::find_switches(family)) {
    arithmetic.norm_weight = shape->norm_weight;
    arithmetic.norm_bias = shape->norm_bias;
    arithmetic.qk_norm = shape->qk_norm;
    if (shape->qk_norm_key != nullptr) arithmetic.qk_normed = {.key = shape->qk_norm_key};
    if (shape->learned_positions.on) arithmetic.positions = Positions::learned;
  }
  return arithmetic;
}

std::vector<std::string_view> families_with_arithmetic() {
  std::vector<std::string_view> names;
  for (const auto& [name, arithmetic] : rows()) names.push_back(name);
  return names;
}

}  // namespace tessera
