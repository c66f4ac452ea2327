// Source: llama.cpp's convert_hf_to_gguf.py and conversion/, set_gguf_parameters and modify_tensors
// of each model, and what src/models/ takes without a key.
#include "gguf_architectures.h"

#include <map>

namespace tessera::weights {
namespace {

using Table = std::map<std::string, Architecture, std::less<>>;
using Spellings = std::vector<Spelling>;

Spellings llama_spellings(const Spellings& others = {}) {
  Spellings all = {{"num_hidden_layers", "block_count"},
                   {"hidden_size", "embedding_length"},
                   {"num_attention_heads", "attention.head_count"},
                   {"num_key_value_heads", "attention.head_count_kv", false},
                   {"head_dim", "attention.key_length", false},
                   {"intermediate_size", "feed_forward_length"},
                   {"max_position_embeddings", "context_length"},
                   {"rms_norm_eps", "attention.layer_norm_rms_epsilon", false},
                   {"rope_theta", "rope.freq_base", false},
                   {"rotary_dim", "rope.dimension_count", false}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

Spellings gpt_spellings(const Spellings& others = {}) {
  Spellings all = {{"n_layer", "block_count"},
                   {"n_head", "attention.head_count"},
                   {"layer_norm_epsilon", "attention.layer_norm_epsilon", false}};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

constexpr Spelling kWindow{"sliding_window", "attention.sliding_window", false};
constexpr Spelling kActive{"num_experts_per_tok", "expert_used_count"};
constexpr Spelling kExpertWidth{"moe_intermediate_size", "expert_feed_forward_length"};
constexpr Spelling kAttentionCap{"attn_logit_softcapping", "attn_logit_softcapping", false};
constexpr Spelling kFinalCap{"final_logit_softcapping", "final_logit_softcapping", false};
constexpr Spelling kLogitScale{"logit_scale", "logit_scale", false};
constexpr Spelling kLayerNormEps{"layer_norm_eps", "attention.layer_norm_epsilon", false};

const std::vector<FlagByTensor> kBiases = {{"attention_bias", "blk.0.attn_output.bias"},
                                           {"mlp_bias", "blk.0.ffn_down.bias"}};
const std::vector<FlagByTensor> kQkvBias = {{"attention_bias", "blk.0.attn_q.bias"}};
const std::vector<FlagByTensor> kUseBias = {{"use_bias", "blk.0.attn_output.bias"}};

void add_llamas(Table& table) {
  table["llama"] = {"llama", llama_spellings(), kBiases, Json::object(), true};
  table["mixtral"] = {"mixtral",
                      llama_spellings({{"num_local_experts", "expert_count"}, kActive}),
                      {},
                      Json::object(),
                      true};
  // Ministral 3 is filed so, and what scales its queries at long contexts is no size.
  table["mistral3"] = {"ministral3", llama_spellings({kWindow}), {}, Json::object(), true};
  table["arcee"] = {"arcee", llama_spellings(), kBiases, Json::object(), true};
  table["smollm3"] = {"smollm3", llama_spellings(), kBiases, Json::object(), true};
  for (const char* same : {"qwen2", "qwen3", "seed_oss"}) table[same] = {same, llama_spellings()};
  table["seed_oss"].flags = {{"attention_bias", "blk.0.attn_q.bias"},
                             {"attention_out_bias", "blk.0.attn_output.bias"}};
  // OLMo 3 too.
  table["olmo2"] = {"olmo2", llama_spellings({kWindow})};
  table["ernie4_5"] = {"ernie4_5", llama_spellings(), kUseBias};
  table["exaone4"] = {"exaone4", llama_spellings({kWindow})};
  table["hunyuan-dense"] = {"hunyuan_v1_dense", llama_spellings(), kBiases};
  table["chatglm"] = {"glm", llama_spellings(), kQkvBias};
  table["glm4"] = {"glm4", llama_spellings(), kQkvBias};
  table["phi3"] = {"phi3", llama_spellings({kWindow})};
  table["olmo"] = {"olmo",
                   llama_spellings({{"clip_qkv", "attention.clamp_kqv", false}}),
                   {},
                   Json::object(),
                   true};
  table["granite"] = {"granite",
                      llama_spellings({{"attention_multiplier", "attention.scale", false},
                                       {"embedding_multiplier", "embedding_scale", false},
                                       {"residual_multiplier", "residual_scale", false},
                                       {"logits_scaling", "logit_scale", false}}),
                      kBiases, Json::object(), true};
  table["gemma"] = {"gemma", llama_spellings()};
  table["gemma2"] = {"gemma2", llama_spellings({kWindow, kAttentionCap, kFinalCap})};
  table["gemma3"] = {"gemma3_text", llama_spellings({kWindow})};
  // What differs by layer is added by gguf_config.
  table["gemma4"] = {
      "gemma4_text",
      llama_spellings({kWindow,
                       kFinalCap,
                       {"global_head_dim", "attention.key_length"},
                       {"rope_local_base_freq", "rope.freq_base_swa", false},
                       {"num_kv_shared_layers", "attention.shared_kv_layers", false},
                       {"hidden_size_per_layer_input", "embedding_length_per_layer_input", false},
                       {"num_experts", "expert_count", false},
                       {"top_k_experts", "expert_used_count", false},
                       {"moe_intermediate_size", "expert_feed_forward_length", false}}),
      {{"enable_moe_block", "blk.0.ffn_gate_inp.weight"}}};
}

void add_layer_norms(Table& table) {
  table["command-r"] = {"cohere",
                        llama_spellings({kLogitScale, kLayerNormEps}),
                        {{"use_qk_norm", "blk.0.attn_q_norm.weight"}}};
  table["cohere2"] = {"cohere2", llama_spellings({kLogitScale, kLayerNormEps, kWindow})};
  table["gptneox"] = {
      "gpt_neox",
      llama_spellings({kLayerNormEps, {"use_parallel_residual", "use_parallel_residual", false}})};
  table["nemotron"] = {
      "nemotron", llama_spellings({{"norm_eps", "attention.layer_norm_epsilon", false}}), kBiases};
  table["apertus"] = {"apertus", llama_spellings(), kQkvBias, Json::object(), true};
  table["jais2"] = {"jais2", llama_spellings({kLayerNormEps}), kBiases};
  table["phi2"] = {"phi", llama_spellings({kLayerNormEps})};
  table["stablelm"] = {
      "stablelm",
      llama_spellings({kLayerNormEps, {"use_parallel_residual", "use_parallel_residual", false}}),
      {{"use_qkv_bias", "blk.0.attn_q.bias"}, {"qk_layernorm", "blk.0.attn_q_norm.weight"}}};
  table["starcoder2"] = {"starcoder2",
                         llama_spellings({{"norm_epsilon", "attention.layer_norm_epsilon", false}}),
                         kUseBias};
}

void add_gpts(Table& table) {
  table["bloom"] = {"bloom", gpt_spellings({{"hidden_size", "embedding_length"},
                                            {"n_inner", "feed_forward_length", false},
                                            {"seq_length", "context_length"}})};
  table["gpt2"] = {"gpt2", gpt_spellings({{"n_embd", "embedding_length"},
                                          {"n_inner", "feed_forward_length"},
                                          {"n_positions", "context_length"}})};
  table["starcoder"] = {"gpt_bigcode", table["gpt2"].spellings};
  table["falcon"] = {"falcon",
                     {{"num_hidden_layers", "block_count"},
                      {"num_attention_heads", "attention.head_count"},
                      {"num_kv_heads", "attention.head_count_kv", false},
                      {"hidden_size", "embedding_length"},
                      {"ffn_hidden_size", "feed_forward_length"},
                      {"max_position_embeddings", "context_length"},
                      {"rope_theta", "rope.freq_base", false},
                      {"layer_norm_epsilon", "attention.layer_norm_epsilon", false}},
                     {{"bias", "blk.0.attn_qkv.bias"}}};
}

void add_experts(Table& table) {
  const Json renormalised = {{"norm_topk_prob", true}};
  table["qwen2moe"] = {
      "qwen2_moe",
      llama_spellings({{"num_experts", "expert_count"},
                       kActive,
                       kExpertWidth,
                       {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}}),
      {},
      {{"norm_topk_prob", false}}};
  table["qwen3moe"] = {"qwen3_moe",
                       llama_spellings({{"num_experts", "expert_count"}, kActive, kExpertWidth}),
                       {},
                       renormalised};
  table["olmoe"] = {"olmoe",
                    llama_spellings({{"num_experts", "expert_count"}, kActive}),
                    {},
                    {{"norm_topk_prob", false}}};
  const Spellings routed =
      llama_spellings({{"n_routed_experts", "expert_count"},
                       kActive,
                       kExpertWidth,
                       {"n_shared_experts", "expert_shared_count"},
                       {"first_k_dense_replace", "leading_dense_block_count"},
                       {"n_group", "expert_group_count", false},
                       {"topk_group", "expert_group_used_count", false},
                       {"routed_scaling_factor", "expert_weights_scale", false},
                       {"norm_topk_prob", "expert_weights_norm", false}});
  table["dots1"] = {"dots1", routed};
  table["glm4moe"] = {
      "glm4_moe",
      routed,
      {{"attention_bias", "blk.0.attn_q.bias"}, {"use_qk_norm", "blk.0.attn_q_norm.weight"}}};
  table["afmoe"] = {"afmoe",
                    llama_spellings({{"num_experts", "expert_count"},
                                     kActive,
                                     kExpertWidth,
                                     {"num_shared_experts", "expert_shared_count"},
                                     {"num_dense_layers", "leading_dense_block_count", false},
                                     kWindow})};
  table["exaone-moe"] = {
      "exaone_moe", llama_spellings({{"num_experts", "expert_count"},
                                     kActive,
                                     kExpertWidth,
                                     {"num_shared_experts", "expert_shared_count"},
                                     {"first_k_dense_replace", "leading_dense_block_count", false},
                                     kWindow})};
  table["ernie4_5-moe"] = {"ernie4_5_moe",
                           llama_spellings({{"moe_num_experts", "expert_count"},
                                            {"moe_k", "expert_used_count"},
                                            kExpertWidth,
                                            {"moe_num_shared_experts", "expert_shared_count"},
                                            {"moe_layer_start_index", "leading_dense_block_count"},
                                            {"moe_layer_interval", "interleave_moe_layer_step"}}),
                           kUseBias};
  table["llama4"] = {"llama4_text",
                     {{"num_hidden_layers", "block_count"},
                      {"hidden_size", "embedding_length"},
                      {"num_attention_heads", "attention.head_count"},
                      {"num_key_value_heads", "attention.head_count_kv"},
                      {"head_dim", "attention.key_length", false},
                      {"intermediate_size_mlp", "feed_forward_length"},
                      {"intermediate_size", "expert_feed_forward_length"},
                      {"max_position_embeddings", "context_length"},
                      {"num_local_experts", "expert_count"},
                      kActive,
                      {"interleave_moe_layer_step", "interleave_moe_layer_step"},
                      {"attention_chunk_size", "attention.sliding_window", false},
                      {"rms_norm_eps", "attention.layer_norm_rms_epsilon", false},
                      {"rope_theta", "rope.freq_base", false}}};
  // Latent attention; what of its widths are no keys is added by gguf_config.
  Spellings latent = routed;
  for (const Spelling& one : {Spelling{"kv_lora_rank", "attention.kv_lora_rank"},
                              {"qk_rope_head_dim", "rope.dimension_count"}})
    latent.push_back(one);
  for (Spelling& one : latent)
    if (std::string_view(one.gguf) == "leading_dense_block_count") one.required = false;
  table["deepseek2"] = {"deepseek_v2", latent};
  table["deepseek4"] = {"deepseek_v4",
                        {{"num_hidden_layers", "block_count"},
                         {"hidden_size", "embedding_length"},
                         {"num_attention_heads", "attention.head_count"},
                         {"head_dim", "attention.key_length"},
                         {"max_position_embeddings", "context_length"},
                         {"qk_rope_head_dim", "rope.dimension_count"},
                         {"q_lora_rank", "attention.q_lora_rank"},
                         {"sliding_window", "attention.sliding_window"},
                         {"n_routed_experts", "expert_count"},
                         kActive,
                         kExpertWidth,
                         {"n_shared_experts", "expert_shared_count"},
                         {"index_n_heads", "attention.indexer.head_count"},
                         {"index_head_dim", "attention.indexer.key_length"},
                         {"index_topk", "attention.indexer.top_k"},
                         {"o_groups", "attention.output_group_count"},
                         {"o_lora_rank", "attention.output_lora_rank"},
                         {"hc_mult", "hyper_connection.count"},
                         {"num_hash_layers", "hash_layer_count"}}};
  table["granitemoe"] = {"granitemoe", table["granite"].spellings, {}, Json::object(), true};
  for (const Spelling& one : {Spelling{"num_local_experts", "expert_count"}, kActive})
    table["granitemoe"].spellings.push_back(one);
  table["gpt-oss"] = {"gpt_oss",
                      llama_spellings({{"num_local_experts", "expert_count"}, kActive, kWindow})};
  table["minimax-m2"] = {"minimax_m2",
                         llama_spellings({{"num_local_experts", "expert_count"}, kActive})};
}

// Layers that keep a state.
void add_states(Table& table) {
  const Spellings delta = {{"linear_conv_kernel_dim", "ssm.conv_kernel"},
                           {"linear_key_head_dim", "ssm.state_size"},
                           {"linear_num_key_heads", "ssm.group_count"},
                           {"linear_num_value_heads", "ssm.time_step_rank"}};
  const Json tiled = {{"value_heads_tiled", true}};
  table["qwen35"] = {"qwen3_5_text", llama_spellings(delta), {}, tiled};
  // Without a width of what is dense: all layers have experts.
  Spellings experts = llama_spellings(delta);
  for (Spelling& one : experts)
    if (std::string_view(one.gguf) == "feed_forward_length") one.required = false;
  for (const Spelling& one :
       {Spelling{"num_experts", "expert_count"}, kActive, kExpertWidth,
        Spelling{"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}})
    experts.push_back(one);
  table["qwen35moe"] = {"qwen3_5_moe_text", experts, {}, tiled};
  table["qwen3next"] = {"qwen3_next", experts, {}, {{"norm_topk_prob", true}}};
  const Spellings convolutions = {{"conv_L_cache", "shortconv.l_cache"},
                                  {"norm_eps", "attention.layer_norm_rms_epsilon", false}};
  table["lfm2"] = {"lfm2",
                   llama_spellings(convolutions),
                   {{"conv_bias", "blk.0.shortconv.in_proj.bias"}},
                   {{"block_auto_adjust_ff_dim", false}},
                   false,
                   "full_attention",
                   "conv"};
  table["lfm2moe"] = table["lfm2"];
  table["lfm2moe"].model_type = "lfm2_moe";
  for (const Spelling& one : {Spelling{"num_experts", "expert_count"}, kActive, kExpertWidth,
                              Spelling{"num_dense_layers", "leading_dense_block_count"}})
    table["lfm2moe"].spellings.push_back(one);
  table["falcon-h1"] = {"falcon_h1",
                        llama_spellings({{"mamba_d_ssm", "ssm.inner_size"},
                                         {"mamba_d_conv", "ssm.conv_kernel"},
                                         {"mamba_d_state", "ssm.state_size"},
                                         {"mamba_n_groups", "ssm.group_count"},
                                         {"mamba_n_heads", "ssm.time_step_rank"}}),
                        {{"mamba_rms_norm", "blk.0.ssm_norm.weight"},
                         {"mamba_conv_bias", "blk.0.ssm_conv1d.bias"},
                         {"mamba_proj_bias", "blk.0.ssm_in.bias"},
                         {"projectors_bias", "blk.0.ssm_out.bias"},
                         {"attention_bias", "blk.0.attn_q.bias"},
                         {"mlp_bias", "blk.0.ffn_down.bias"}},
                        {{"mamba_norm_before_gate", false}}};
  table["nemotron_h"] = {
      "nemotron_h",
      llama_spellings({{"layer_norm_epsilon", "attention.layer_norm_rms_epsilon", false},
                       {"conv_kernel", "ssm.conv_kernel"},
                       {"ssm_state_size", "ssm.state_size"},
                       {"n_groups", "ssm.group_count"},
                       {"mamba_num_heads", "ssm.time_step_rank"}})};
  table["nemotron_h_moe"] = table["nemotron_h"];
  for (const Spelling& one :
       {Spelling{"n_routed_experts", "expert_count"}, kActive, kExpertWidth,
        Spelling{"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
        Spelling{"moe_latent_size", "moe_latent_size", false},
        Spelling{"n_group", "expert_group_count", false},
        Spelling{"topk_group", "expert_group_used_count", false},
        Spelling{"routed_scaling_factor", "expert_weights_scale", false},
        Spelling{"norm_topk_prob", "expert_weights_norm", false}})
    table["nemotron_h_moe"].spellings.push_back(one);
  table["jamba"] = {"jamba", llama_spellings({{"num_experts", "expert_count"},
                                              kActive,
                                              {"mamba_d_conv", "ssm.conv_kernel"},
                                              {"mamba_d_state", "ssm.state_size"},
                                              {"mamba_dt_rank", "ssm.time_step_rank"}})};
  table["granitehybrid"] = table["granitemoe"];
  Architecture& granite = table["granitehybrid"];
  granite.attends = "attention";
  granite.keeps_state = "mamba";
  granite.model_type = "granitemoehybrid";
  for (const Spelling& one :
       {Spelling{"shared_intermediate_size", "expert_shared_feed_forward_length", false},
        {"mamba_d_conv", "ssm.conv_kernel"},
        {"mamba_d_state", "ssm.state_size"},
        {"mamba_n_groups", "ssm.group_count"},
        {"mamba_n_heads", "ssm.time_step_rank"}})
    granite.spellings.push_back(one);
}

const Table& rows() {
  static const Table table = [] {
    Table made;
    add_llamas(made);
    add_layer_norms(made);
    add_gpts(made);
    add_experts(made);
    add_states(made);
    return made;
  }();
  return table;
}

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  const auto found = rows().find(name);
  return found == rows().end() ? nullptr : &found->second;
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows()) {
    if (name != "mixtral") names.push_back(name);
  }
  return names;
}

}  // namespace tessera::weights
