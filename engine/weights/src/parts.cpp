// Names of tensors beside the matrices. Sources: the modules of Hugging Face transformers
// (modeling_*.py), and gguf-py/gguf/tensor_mapping.py of llama.cpp for GGUF.
#include "tessera/weights/parts.h"

#include <map>

#include "gguf_config.h"
#include "names.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

using Stems = std::map<Part, std::vector<std::string>>;

/// Of all families but those below; where several names are given, the first that is there counts.
Stems usual_stems() {
  const std::string layer = "layers.{}.", attention = layer + "self_attn.";
  return {{Part::token_embedding, {"embed_tokens"}},
          {Part::final_norm, {"norm", "final_layernorm"}},
          {Part::attention_norm, {layer + "input_layernorm"}},
          {Part::ffn_norm, {layer + "post_attention_layernorm"}},
          {Part::q_norm,
           {attention + "q_norm", attention + "q_layernorm", attention + "query_layernorm",
            attention + "q_layernorm.norms.{h}"}},
          {Part::k_norm,
           {attention + "k_norm", attention + "k_layernorm", attention + "key_layernorm",
            attention + "k_layernorm.norms.{h}"}},
          {Part::sinks, {attention + "sinks"}},
          {Part::query_latent_norm, {attention + "q_a_layernorm"}},
          {Part::latent_norm, {attention + "kv_a_layernorm"}},
          {Part::router,
           {layer + "mlp.gate", layer + "mlp.router", layer + "block_sparse_moe.gate",
            layer + "block_sparse_moe.router.layer"}},
          {Part::router_correction,
           {layer + "mlp.gate.e_score_correction_bias",
            layer + "mlp.moe_statics.e_score_correction_bias"}},
          {Part::shared_expert_gate, {layer + "mlp.shared_expert_gate"}},
          {Part::state_convolution, {layer + "linear_attn.conv1d", layer + "mamba.conv1d"}},
          {Part::state_decay, {layer + "linear_attn.A_log", layer + "mamba.A_log"}},
          {Part::state_step_bias,
           {layer + "linear_attn.dt_bias", layer + "mamba.dt_bias", layer + "mamba.dt_proj.bias"}},
          {Part::state_step_norm, {layer + "mamba.dt_layernorm"}},
          {Part::state_b_norm, {layer + "mamba.b_layernorm"}},
          {Part::state_c_norm, {layer + "mamba.c_layernorm"}},
          {Part::state_skip, {layer + "mamba.D"}},
          {Part::state_norm, {layer + "linear_attn.norm", layer + "mamba.norm"}}};
}

// Norms of what attention and feed-forward network give: Gemma's names, which OLMo and EXAONE took.
Stems gemma_stems() {
  Stems stems = usual_stems();
  stems[Part::attention_post_norm] = {"layers.{}.post_attention_layernorm"};
  stems[Part::ffn_norm] = {"layers.{}.pre_feedforward_layernorm"};
  stems[Part::ffn_post_norm] = {"layers.{}.post_feedforward_layernorm"};
  return stems;
}

// Beside what Gemma 2 has: inputs of layers by token.
Stems layer_input_stems() {
  Stems stems = gemma_stems();
  stems[Part::layer_embedding] = {"embed_tokens_per_layer"};
  stems[Part::layer_projection] = {"per_layer_model_projection"};
  stems[Part::layer_projection_norm] = {"per_layer_projection_norm"};
  stems[Part::layer_input_norm] = {"layers.{}.post_per_layer_input_norm"};
  return stems;
}

// Several hidden states of a token.
Stems gemma3n_stems() {
  Stems stems = layer_input_stems();
  const std::string streams = "layers.{}.altup.";
  stems[Part::stream_projection] = {"altup_projections.{}"};
  stems[Part::stream_return] = {"altup_unembed_projections.{}"};
  stems[Part::bypass_norm] = {"layers.{}.laurel.post_laurel_norm"};
  stems[Part::stream_prediction] = {streams + "prediction_coefs"};
  stems[Part::stream_correction] = {streams + "correction_coefs"};
  stems[Part::stream_router] = {streams + "modality_router"};
  stems[Part::stream_router_norm] = {streams + "router_norm"};
  stems[Part::stream_scale] = {streams + "correct_output_scale"};
  return stems;
}

// Experts beside the network.
Stems gemma4_stems() {
  Stems stems = layer_input_stems();
  const std::string layer = "layers.{}.";
  stems[Part::layer_scale] = {layer + "layer_scalar"};
  stems[Part::network_post_norm] = {layer + "post_feedforward_layernorm_1"};
  stems[Part::experts_norm] = {layer + "pre_feedforward_layernorm_2"};
  stems[Part::experts_post_norm] = {layer + "post_feedforward_layernorm_2"};
  stems[Part::router] = {layer + "router.proj"};
  stems[Part::router_scale] = {layer + "router.scale"};
  stems[Part::expert_scale] = {layer + "router.per_expert_scale"};
  return stems;
}

Stems glm4_stems() {
  Stems stems = usual_stems();
  stems[Part::attention_post_norm] = {"layers.{}.post_self_attn_layernorm"};
  stems[Part::ffn_post_norm] = {"layers.{}.post_mlp_layernorm"};
  return stems;
}

Stems lfm2_stems() {
  Stems stems = usual_stems();
  stems[Part::final_norm] = {"embedding_norm"};
  stems[Part::attention_norm] = {"layers.{}.operator_norm"};
  stems[Part::ffn_norm] = {"layers.{}.ffn_norm"};
  stems[Part::router] = {"layers.{}.feed_forward.gate"};
  stems[Part::router_correction] = {"layers.{}.feed_forward.expert_bias"};
  stems[Part::state_convolution] = {"layers.{}.conv.conv"};
  return stems;
}

// A block is one mixer behind one norm.
Stems nemotron_h_stems() {
  Stems stems = usual_stems();
  const std::string mixer = "layers.{}.mixer.";
  stems[Part::token_embedding] = {"embeddings", "embed_tokens"};
  stems[Part::final_norm] = {"norm_f"};
  stems[Part::attention_norm] = stems[Part::ffn_norm] = {"layers.{}.norm"};
  stems[Part::router] = {mixer + "gate"};
  stems[Part::router_correction] = {mixer + "gate.e_score_correction_bias"};
  stems[Part::state_convolution] = {mixer + "conv1d"};
  stems[Part::state_decay] = {mixer + "A_log"};
  stems[Part::state_step_bias] = {mixer + "dt_bias"};
  stems[Part::state_skip] = {mixer + "D"};
  stems[Part::state_norm] = {mixer + "norm"};
  return stems;
}

// Delta nets and latent attention under one name.
Stems kimi_linear_stems() {
  Stems stems = usual_stems();
  const std::string mixer = "layers.{}.self_attn.";
  stems[Part::router_correction] = {"layers.{}.block_sparse_moe.gate.e_score_correction_bias"};
  stems[Part::state_convolution] = {mixer + "q_conv1d"};
  stems[Part::state_key_convolution] = {mixer + "k_conv1d"};
  stems[Part::state_value_convolution] = {mixer + "v_conv1d"};
  stems[Part::state_decay] = {mixer + "A_log"};
  stems[Part::state_step_bias] = {mixer + "dt_bias"};
  stems[Part::state_norm] = {mixer + "o_norm"};
  return stems;
}

Stems llama4_stems() {
  Stems stems = usual_stems();
  stems[Part::router] = {"layers.{}.feed_forward.router"};
  return stems;
}

// Falcon-H1 and Jamba.
Stems pre_ff_stems() {
  Stems stems = usual_stems();
  stems[Part::ffn_norm] = {"layers.{}.pre_ff_layernorm"};
  stems[Part::router] = {"layers.{}.feed_forward.router"};
  return stems;
}

const Stems& stems_of(const std::string& family) {
  static const Stems usual = usual_stems();
  static const std::map<std::string, Stems> others = {
      {"exaone4", gemma_stems()},
      {"falcon_h1", pre_ff_stems()},
      {"gemma2", gemma_stems()},
      {"gemma3", gemma_stems()},
      {"gemma3n", gemma3n_stems()},
      {"gemma4", gemma4_stems()},
      {"glm4", glm4_stems()},
      {"jamba", pre_ff_stems()},
      {"kimi_linear", kimi_linear_stems()},
      {"lfm2", lfm2_stems()},
      {"lfm2_moe", lfm2_stems()},
      {"llama4_text", llama4_stems()},
      {"nemotron_h", nemotron_h_stems()},
      {"olmo2", gemma_stems()},
      {"olmo3", gemma_stems()},
      {"opt",
       {{Part::token_embedding, {"embed_tokens"}},
        {Part::position_embedding, {"embed_positions"}},
        {Part::project_in, {"project_in"}},
        {Part::project_out, {"project_out"}},
        {Part::final_norm, {"final_layer_norm"}},
        {Part::attention_norm, {"layers.{}.self_attn_layer_norm"}},
        {Part::ffn_norm, {"layers.{}.final_layer_norm"}}}},
      {"bloom",
       {{Part::token_embedding, {"word_embeddings"}},
        {Part::embedding_norm, {"word_embeddings_layernorm"}},
        {Part::final_norm, {"ln_f"}},
        {Part::attention_norm, {"h.{}.input_layernorm"}},
        {Part::ffn_norm, {"h.{}.post_attention_layernorm"}}}},
      {"falcon",
       {{Part::token_embedding, {"word_embeddings"}},
        {Part::final_norm, {"ln_f"}},
        {Part::attention_norm, {"h.{}.ln_attn", "h.{}.input_layernorm"}},
        {Part::ffn_norm, {"h.{}.ln_mlp", "h.{}.post_attention_layernorm"}}}},
      {"gpt2",
       {{Part::token_embedding, {"wte"}},
        {Part::position_embedding, {"wpe"}},
        {Part::final_norm, {"ln_f"}},
        {Part::attention_norm, {"h.{}.ln_1"}},
        {Part::ffn_norm, {"h.{}.ln_2"}}}},
      {"gptj",
       {{Part::token_embedding, {"wte"}},
        {Part::final_norm, {"ln_f"}},
        {Part::attention_norm, {"h.{}.ln_1"}}}},
      {"gpt_neox",
       {{Part::token_embedding, {"embed_in"}},
        {Part::final_norm, {"final_layer_norm"}},
        {Part::lm_head, {"embed_out"}},
        {Part::attention_norm, {"layers.{}.input_layernorm"}},
        {Part::ffn_norm, {"layers.{}.post_attention_layernorm"}}}},
      {"mpt",
       {{Part::token_embedding, {"wte"}},
        {Part::final_norm, {"norm_f"}},
        {Part::attention_norm, {"blocks.{}.norm_1"}},
        {Part::ffn_norm, {"blocks.{}.norm_2"}}}}};
  const bool as_gpt2 = family == "gpt_neo" || family == "gpt_bigcode";
  const auto found = others.find(as_gpt2 ? "gpt2" : family);
  return found == others.end() ? usual : found->second;
}

// Falcon's second norm is that of the attention, and the first one then the other's.
const Stems& gguf_stems(const Weights& weights, const std::string& family) {
  static const Stems usual = {
      {Part::token_embedding, {"token_embd"}},
      {Part::position_embedding, {"position_embd"}},
      {Part::embedding_norm, {"token_embd_norm"}},
      {Part::final_norm, {"output_norm", "token_embd_norm"}},
      {Part::lm_head, {"output"}},
      {Part::rope_factors, {"rope_freqs"}},
      {Part::attention_norm, {"blk.{}.attn_norm"}},
      {Part::ffn_norm, {"blk.{}.ffn_norm", "blk.{}.post_attention_norm"}},
      {Part::attention_post_norm, {"blk.{}.post_attention_norm"}},
      {Part::ffn_post_norm, {"blk.{}.post_ffw_norm"}},
      {Part::q_norm, {"blk.{}.attn_q_norm"}},
      {Part::k_norm, {"blk.{}.attn_k_norm"}},
      {Part::router, {"blk.{}.ffn_gate_inp"}},
      {Part::router_correction, {"blk.{}.exp_probs_b.bias"}},
      {Part::shared_expert_gate, {"blk.{}.ffn_gate_inp_shexp"}},
      {Part::sinks, {"blk.{}.attn_sinks"}},
      {Part::query_latent_norm, {"blk.{}.attn_q_a_norm"}},
      {Part::latent_norm, {"blk.{}.attn_kv_a_norm"}},
      {Part::state_convolution, {"blk.{}.ssm_conv1d", "blk.{}.shortconv.conv"}},
      {Part::state_decay, {"blk.{}.ssm_a"}},
      {Part::state_step_bias, {"blk.{}.ssm_dt.bias"}},
      {Part::state_skip, {"blk.{}.ssm_d"}},
      {Part::state_step_norm, {"blk.{}.ssm_dt_norm"}},
      {Part::state_b_norm, {"blk.{}.ssm_b_norm"}},
      {Part::state_c_norm, {"blk.{}.ssm_c_norm"}},
      {Part::layer_embedding, {"per_layer_token_embd"}},
      {Part::layer_projection, {"per_layer_model_proj"}},
      {Part::layer_projection_norm, {"per_layer_proj_norm"}},
      {Part::layer_input_norm, {"blk.{}.post_norm"}},
      {Part::layer_scale, {"blk.{}.layer_output_scale"}},
      {Part::network_post_norm, {"blk.{}.post_ffw_norm_1"}},
      {Part::experts_norm, {"blk.{}.pre_ffw_norm_2"}},
      {Part::experts_post_norm, {"blk.{}.post_ffw_norm_2"}},
      {Part::router_scale, {"blk.{}.ffn_gate_inp.scale"}},
      {Part::expert_scale, {"blk.{}.ffn_down_exps.scale"}},
      {Part::state_norm, {"blk.{}.ssm_norm"}}};
  static const Stems two_norms = [] {
    Stems stems = usual;
    stems[Part::attention_norm] = {"blk.{}.attn_norm_2"};
    stems[Part::ffn_norm] = {"blk.{}.attn_norm"};
    return stems;
  }();
  // A block is one mixer behind one norm, whatever it is.
  static const Stems one_norm = [] {
    Stems stems = usual;
    stems[Part::ffn_norm] = stems[Part::attention_norm];
    return stems;
  }();
  if (family == "nemotron_h") return one_norm;
  return weights.find("blk.0.attn_norm_2.weight") != nullptr ? two_norms : usual;
}

std::vector<std::string> prefixes_of(const Weights& weights, Part part) {
  if (weights.is_gguf()) return {""};
  std::vector<std::string> prefixes = name_prefixes();
  if (part == Part::lm_head) prefixes.insert(prefixes.end(), {"language_model."});
  return prefixes;
}

}  // namespace

std::vector<std::string> names_of_part(const Weights& weights, const ModelShape& model, Part part,
                                       std::int64_t layer_index, std::int64_t head) {
  const Stems& stems =
      weights.is_gguf() ? gguf_stems(weights, model.family) : stems_of(model.family);
  const auto known = stems.find(part);
  std::vector<std::string> patterns;
  if (known != stems.end()) patterns = known->second;
  if (part == Part::lm_head && patterns.empty() && !weights.is_gguf()) patterns = {"lm_head"};
  std::vector<std::string> names;
  for (std::string stem : patterns) {
    if (const std::size_t at = stem.find("{}"); at != std::string::npos)
      stem.replace(at, 2, std::to_string(layer_index));
    if (const std::size_t at = stem.find("{h}"); at != std::string::npos)
      stem.replace(at, 3, std::to_string(head));
    for (const std::string& prefix : prefixes_of(weights, part)) names.push_back(prefix + stem);
  }
  return names;
}

std::optional<PartTensors> find_part(const Weights& weights, const ModelShape& model, Part part,
                                     std::int64_t layer_index, std::int64_t head) {
  for (const std::string& name : names_of_part(weights, model, part, layer_index, head)) {
    if (const TensorInfo* weight = weights.find(name + ".weight"))
      return PartTensors{weight, weights.find(name + ".bias")};
    if (const TensorInfo* numbers = weights.find(name)) return PartTensors{numbers, nullptr};
  }
  return std::nullopt;
}

const TensorInfo* bias_of(const Weights& weights, const LinearWeight& linear) {
  constexpr std::string_view kWeight = ".weight", kPacked = ".weight_packed", kWords = ".qweight",
                             kBlocks = "_blocks";
  std::string name = linear.tensor->name;
  for (const std::string_view ending : {kPacked, kWords, kWeight}) {
    if (name.ends_with(ending))
      return weights.find(name.substr(0, name.size() - ending.size()) + ".bias");
  }
  if (name.ends_with(kBlocks)) name.resize(name.size() - kBlocks.size());
  return weights.find(name + "_bias");  // of a stack of experts
}

Json hf_config_of(const Weights& weights) {
  if (weights.is_gguf()) return config_of_gguf(weights);
  if (weights.config().is_null()) {
    refuse(ErrorCode::not_found, weights.path(),
           "no config.json beside the weights says what model they are; copy it from where they "
           "came from");
  }
  const auto text = weights.config().find("text_config");
  return text != weights.config().end() && text->is_object() ? *text : weights.config();
}

}  // namespace tessera::weights
