// Names of tensors. Sources: the modules of Hugging Face transformers (modeling_*.py, 4.x and 5.x),
// and gguf-py/gguf/constants.py and convert_hf_to_gguf.py of llama.cpp for GGUF.
#include "names.h"

#include <map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera::weights {
namespace {

using Fused = Place::Fused;
/// By the linear's name.
using Names = std::map<std::string, std::vector<Place>>;

std::vector<Place> places(const std::string& folder, std::initializer_list<const char*> names) {
  std::vector<Place> found;
  for (const char* name : names) found.push_back({folder + name + ".weight"});
  return found;
}

/// Of all families but those below: Llama's names, and where others took another word for the same
/// matrix, that one.
Names usual_names() {
  const std::string attention = "layers.{}.self_attn.", ffn = "layers.{}.mlp.";
  Names names;
  for (const char* linear : {"q_proj", "k_proj", "v_proj"}) {
    names[linear] = {{attention + linear + ".weight"}, {attention + "qkv_proj.weight", Fused::qkv}};
  }
  for (const char* linear : {"q_a_proj", "q_b_proj", "kv_b_proj"})
    names[linear] = places(attention, {linear});
  names["kv_a_proj"] = places(attention, {"kv_a_proj_with_mqa"});
  names["o_proj"] = places(attention, {"o_proj", "dense"});
  names["up_proj"] = places(ffn, {"up_proj", "fc1", "c_fc"});
  names["down_proj"] = places(ffn, {"down_proj", "fc2", "c_proj"});
  names["gate_proj"] = places(ffn, {"gate_proj"});
  for (const char* linear : {"gate_proj", "up_proj"})
    names[linear].push_back({ffn + "gate_up_proj.weight", Fused::gate_up});
  for (const char* linear : {"in_proj_qkvz", "in_proj_ba", "out_proj"})
    names[std::string("linear_attn.") + linear] = places("layers.{}.linear_attn.", {linear});
  for (const char* linear : {"in_proj", "x_proj", "dt_proj", "out_proj"})
    names[std::string("mamba.") + linear] = places("layers.{}.mamba.", {linear});
  return names;
}

// One tensor per expert, and since transformers 5 all experts of a layer in one. Beside them there
// may be a network that every token passes.
Names with_experts(const std::string& block, const char* gate, const char* up, const char* down) {
  Names names = usual_names();
  const std::string one = "layers.{}." + block + ".experts.{e}.";
  const std::vector<std::string> stacks = {"layers.{}." + block + ".experts.",
                                           "layers.{}.mlp.experts."};
  const auto add = [&](const std::string& linear, const char* name, const char* stack,
                       Fused fused) {
    auto& places = names["experts." + linear];
    places.push_back({one + name + ".weight"});
    for (const std::string& folder : stacks) {
      places.push_back({folder + stack, fused, false, true});
    }
    for (const char* shared : {"shared_expert.", "shared_experts."})
      names["shared_expert." + linear].push_back(
          {"layers.{}." + block + "." + shared + linear + ".weight"});
  };
  add("gate_proj", gate, "gate_up_proj", Fused::gate_up);
  add("up_proj", up, "gate_up_proj", Fused::gate_up);
  add("down_proj", down, "down_proj", Fused::no);
  return names;
}

// Stacks alone, of gate and up together; what every token passes is a shared_mlp.
Names granite_moe_names() {
  Names names = usual_names();
  const std::string block = "layers.{}.block_sparse_moe.";
  for (const char* linear : {"experts.gate_proj", "experts.up_proj"})
    names[linear] = {{block + "input_linear.weight", Fused::gate_up, false, true}};
  names["experts.down_proj"] = {{block + "output_linear.weight", Fused::no, false, true}};
  const std::string shared = "layers.{}.shared_mlp.";
  for (const char* prefix : {"", "shared_expert."}) {
    for (const char* linear : {"gate_proj", "up_proj"})
      names[std::string(prefix) + linear] = {{shared + "input_linear.weight", Fused::gate_up}};
    names[std::string(prefix) + "down_proj"] = {{shared + "output_linear.weight"}};
  }
  return names;
}

// Stacks of matrices [in_features, out_features], columns of gate and up by turns; as MXFP4 with
// rows of these.
Names gpt_oss_names() {
  Names names = usual_names();
  const std::string experts = "layers.{}.mlp.experts.";
  for (const char* linear : {"experts.gate_proj", "experts.up_proj"})
    names[linear] = {{experts + "gate_up_proj", Fused::gate_up_by_turns, true, true},
                     {experts + "gate_up_proj_blocks", Fused::gate_up_by_turns, false, true}};
  names["experts.down_proj"] = {{experts + "down_proj", Fused::no, true, true},
                                {experts + "down_proj_blocks", Fused::no, false, true}};
  return names;
}

// A layer gets inputs by token.
Names layer_input_names() {
  Names names = usual_names();
  names["per_layer_input.in_proj"] = places("layers.{}.", {"per_layer_input_gate"});
  names["per_layer_input.out_proj"] = places("layers.{}.", {"per_layer_projection"});
  return names;
}

// There is a way of low rank beside attention.
Names gemma3n_names() {
  Names names = layer_input_names();
  names["laurel.in_proj"] = places("layers.{}.laurel.", {"linear_left"});
  names["laurel.out_proj"] = places("layers.{}.laurel.", {"linear_right"});
  return names;
}

// Experts stand beside the network.
Names gemma4_names() {
  Names names = layer_input_names();
  const std::string experts = "layers.{}.experts.";
  for (const char* linear : {"gate_proj", "up_proj"}) {
    names[std::string("experts.") + linear] = {
        {experts + "gate_up_proj", Fused::gate_up, false, true}};
  }
  names["experts.down_proj"] = {{experts + "down_proj", Fused::no, false, true}};
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    names[std::string("shared_expert.") + linear] = names[linear];
  return names;
}

// LFM2's words for Llama's layer, and a convolution in the place of attention.
Names lfm2_names() {
  Names names = with_experts("feed_forward", "w1", "w3", "w2");
  names["o_proj"] = {{"layers.{}.self_attn.out_proj.weight"}};
  const std::string ffn = "layers.{}.feed_forward.", conv = "layers.{}.conv.";
  names["gate_proj"] = {{ffn + "w1.weight"}};
  names["up_proj"] = {{ffn + "w3.weight"}};
  names["down_proj"] = {{ffn + "w2.weight"}};
  for (const char* linear : {"in_proj", "out_proj"})
    names[std::string("conv.") + linear] = places(conv, {linear});
  return names;
}

// Whatever a block is, it is a mixer.
Names nemotron_h_names() {
  Names names = with_experts("mixer", "gate_proj", "up_proj", "down_proj");
  const std::string block = "layers.{}.mixer.";
  for (const char* linear : {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"})
    names[linear] = places(block, {linear});
  for (const char* linear : {"in_proj", "out_proj"})
    names[std::string("mamba.") + linear] = places(block, {linear});
  names["latent.in_proj"] = places(block, {"fc1_latent_proj"});
  names["latent.out_proj"] = places(block, {"fc2_latent_proj"});
  names["experts.up_proj"] = {{block + "experts.{e}.up_proj.weight"},
                              {block + "experts.up_proj", Fused::no, false, true}};
  return names;
}

// Networks and experts are a feed_forward.
Names feed_forward_names() {
  Names names = with_experts("feed_forward", "gate_proj", "up_proj", "down_proj");
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    names[linear] = places("layers.{}.feed_forward.", {linear});
  return names;
}

// Delta nets and latent attention under one name. transformers files the dense networks of the
// first layers under that of experts, others under their own.
Names kimi_linear_names() {
  Names names = with_experts("block_sparse_moe", "w1", "w3", "w2");
  for (const char* linear : {"q_proj", "k_proj", "v_proj", "f_a_proj", "f_b_proj", "g_a_proj",
                             "g_b_proj", "b_proj", "o_proj"}) {
    names[std::string("linear_attn.") + linear] = places("layers.{}.self_attn.", {linear});
  }
  for (const char* linear : {"gate_proj", "up_proj", "down_proj"})
    names[linear].push_back({std::string("layers.{}.block_sparse_moe.") + linear + ".weight"});
  return names;
}

// Stacks of matrices [in_features, out_features], of gate and up together.
Names llama4_names() {
  Names names = feed_forward_names();
  const std::string experts = "layers.{}.feed_forward.experts.";
  for (const char* linear : {"experts.gate_proj", "experts.up_proj"})
    names[linear] = {{experts + "gate_up_proj", Fused::gate_up, true, true}};
  names["experts.down_proj"] = {{experts + "down_proj", Fused::no, true, true}};
  return names;
}

Names opt_names() {
  const std::string layer = "layers.{}.";
  return {{"q_proj", {{layer + "self_attn.q_proj.weight"}}},
          {"k_proj", {{layer + "self_attn.k_proj.weight"}}},
          {"v_proj", {{layer + "self_attn.v_proj.weight"}}},
          {"o_proj", {{layer + "self_attn.out_proj.weight"}}},
          {"up_proj", {{layer + "fc1.weight"}}},
          {"down_proj", {{layer + "fc2.weight"}}}};
}

// BLOOM (view [heads, 3, head_dim]) and Falcon, whose three forms are one: a group per key-value
// head, be it one of all heads (multi_query), one per head, or between (new_decoder_architecture).
Names bloom_names() {
  const std::string layer = "h.{}.";
  const Place fused = {layer + "self_attention.query_key_value.weight", Fused::grouped_qkv};
  return {{"q_proj", {fused}},
          {"k_proj", {fused}},
          {"v_proj", {fused}},
          {"o_proj", {{layer + "self_attention.dense.weight"}}},
          {"up_proj", {{layer + "mlp.dense_h_to_4h.weight"}}},
          {"down_proj", {{layer + "mlp.dense_4h_to_h.weight"}}}};
}

// Conv1D holds its matrix as [in_features, out_features].
Names gpt2_names() {
  const std::string layer = "h.{}.";
  const Place fused = {layer + "attn.c_attn.weight", Fused::qkv, true};
  return {{"q_proj", {fused}},
          {"k_proj", {fused}},
          {"v_proj", {fused}},
          {"o_proj", {{layer + "attn.c_proj.weight", Fused::no, true}}},
          {"up_proj", {{layer + "mlp.c_fc.weight", Fused::no, true}}},
          {"down_proj", {{layer + "mlp.c_proj.weight", Fused::no, true}}}};
}

Names gpt_neox_names() {
  const std::string layer = "layers.{}.";
  const Place fused = {layer + "attention.query_key_value.weight", Fused::grouped_qkv};
  return {{"q_proj", {fused}},
          {"k_proj", {fused}},
          {"v_proj", {fused}},
          {"o_proj", {{layer + "attention.dense.weight"}}},
          {"up_proj", {{layer + "mlp.dense_h_to_4h.weight"}}},
          {"down_proj", {{layer + "mlp.dense_4h_to_h.weight"}}}};
}

Names mpt_names() {
  const std::string layer = "blocks.{}.";
  const Place fused = {layer + "attn.Wqkv.weight", Fused::qkv};
  return {{"q_proj", {fused}},
          {"k_proj", {fused}},
          {"v_proj", {fused}},
          {"o_proj", {{layer + "attn.out_proj.weight"}}},
          {"up_proj", {{layer + "ffn.up_proj.weight"}}},
          {"down_proj", {{layer + "ffn.down_proj.weight"}}}};
}

// GPT-2's, as Linear has them: one key head after all of q, or q, k and v of a head together.
Names gpt_bigcode_names() {
  Names names = gpt2_names();
  for (auto& [linear, places] : names) {
    places.front().transposed = false;
    if (places.front().fused == Fused::qkv) places.front().fused = Fused::grouped_qkv;
  }
  return names;
}

Names gpt_neo_names() {
  Names names = gpt2_names();
  for (auto& [linear, places] : names) places.front().transposed = false;
  const std::string attention = "h.{}.attn.attention.";
  for (const char* linear : {"q_proj", "k_proj", "v_proj"})
    names[linear] = {{attention + linear + ".weight"}};
  names["o_proj"] = {{attention + "out_proj.weight"}};
  return names;
}

Names gptj_names() {
  const std::string layer = "h.{}.";
  return {
      {"q_proj", {{layer + "attn.q_proj.weight"}}}, {"k_proj", {{layer + "attn.k_proj.weight"}}},
      {"v_proj", {{layer + "attn.v_proj.weight"}}}, {"o_proj", {{layer + "attn.out_proj.weight"}}},
      {"up_proj", {{layer + "mlp.fc_in.weight"}}},  {"down_proj", {{layer + "mlp.fc_out.weight"}}}};
}

// One table for all: llama.cpp's converter splits, reorders and transposes into these.
Names gguf_names() {
  const std::string layer = "blk.{}.";
  const auto attention = [&](const char* name) -> std::vector<Place> {
    return {{layer + "attn_" + name + ".weight"}, {layer + "attn_qkv.weight", Fused::qkv}};
  };
  Names names = {{"q_proj", attention("q")},
                 {"k_proj", attention("k")},
                 {"v_proj", attention("v")},
                 {"o_proj", {{layer + "attn_output.weight"}}}};
  names["kv_a_proj"] = {{layer + "attn_kv_a_mqa.weight"}};
  names["kv_b_proj"] = {{layer + "attn_kv_b.weight"}};
  for (const char* name : {"q_a", "q_b"})
    names[name + std::string("_proj")] = {{layer + "attn_" + name + ".weight"}};
  for (const char* name : {"gate", "up", "down"}) {
    const std::string linear = name + std::string("_proj"), tensor = layer + "ffn_" + name;
    names[linear] = {{tensor + ".weight"}};
    names["experts." + linear] = {{tensor + "_exps.weight", Fused::no, false, true},
                                  {tensor + ".{e}.weight"}};
    // Gemma 4 has a network in the place of a shared expert.
    names["shared_expert." + linear] = {{tensor + "_shexp.weight"}, {tensor + ".weight"}};
  }
  for (const char* linear : {"experts.gate_proj", "experts.up_proj"})
    names[linear].push_back({layer + "ffn_gate_up_exps.weight", Fused::gate_up, false, true});
  names["per_layer_input.in_proj"] = {{layer + "inp_gate.weight"}};
  names["per_layer_input.out_proj"] = {{layer + "proj.weight"}};
  names["linear_attn.in_proj_qkvz"] = {{layer + "attn_qkv.weight"}};
  names["linear_attn.in_proj_ba"] = {{layer + "ssm_ba.weight"}};
  names["linear_attn.out_proj"] = names["mamba.out_proj"] = {{layer + "ssm_out.weight"}};
  names["mamba.in_proj"] = {{layer + "ssm_in.weight"}};
  names["mamba.x_proj"] = {{layer + "ssm_x.weight"}};
  names["mamba.dt_proj"] = {{layer + "ssm_dt.weight"}};
  for (const char* name : {"in_proj", "out_proj"})
    names[std::string("conv.") + name] = {{layer + "shortconv." + name + ".weight"}};
  names["latent.in_proj"] = {{layer + "ffn_latent_down.weight"}};
  names["latent.out_proj"] = {{layer + "ffn_latent_up.weight"}};
  return names;
}

// Families whose gate and up llama.cpp leaves in one matrix.
Names gguf_names_with_fused_gate() {
  Names names = gguf_names();
  for (const char* linear : {"gate_proj", "up_proj"})
    names[linear] = {{"blk.{}.ffn_up.weight", Fused::gate_up}};
  return names;
}

const Names& names_of(const std::string& family) {
  static const Names usual = with_experts("mlp", "gate_proj", "up_proj", "down_proj");
  static const std::map<std::string, Names> others = {
      {"bloom", bloom_names()},
      {"falcon", bloom_names()},
      {"falcon_h1", feed_forward_names()},
      {"gemma3n", gemma3n_names()},
      {"gemma4", gemma4_names()},
      {"gpt2", gpt2_names()},
      {"gpt_bigcode", gpt_bigcode_names()},
      {"gpt_neo", gpt_neo_names()},
      {"gpt_neox", gpt_neox_names()},
      {"gpt_oss", gpt_oss_names()},
      {"gptj", gptj_names()},
      {"granitemoe", granite_moe_names()},
      {"granitemoehybrid", granite_moe_names()},
      {"granitemoeshared", granite_moe_names()},
      {"jamba", feed_forward_names()},
      {"kimi_linear", kimi_linear_names()},
      {"lfm2", lfm2_names()},
      {"lfm2_moe", lfm2_names()},
      {"llama4_text", llama4_names()},
      {"mixtral", with_experts("block_sparse_moe", "w1", "w3", "w2")},
      {"mpt", mpt_names()},
      {"nemotron_h", nemotron_h_names()},
      {"opt", opt_names()},
  };
  const auto found = others.find(family);
  return found == others.end() ? usual : found->second;
}

}  // namespace

std::vector<Place> places_of(const std::string& family, const std::string& linear, bool gguf) {
  static const Names in_gguf = gguf_names(), fused_in_gguf = gguf_names_with_fused_gate();
  const bool fused = family == "glm" || family == "glm4" || family == "phi3";
  const Names& names = !gguf ? names_of(family) : fused ? fused_in_gguf : in_gguf;
  const auto found = names.find(linear);
  if (found != names.end()) return found->second;
  throw Error(ErrorCode::unsupported, "the names of tensors of the family " + quote(family) +
                                          " are not known for " + quote(linear));
}

// Qwen3.5 keeps what Qwen3-Next has in one, and so does llama.cpp of both.
std::vector<std::string> pieces_of(const std::string& linear, bool gguf) {
  const auto both = [&](const char* first, const char* second) {
    const std::string folder = gguf ? "blk.{}." : "layers.{}.linear_attn.";
    return std::vector<std::string>{folder + first + ".weight", folder + second + ".weight"};
  };
  if (linear == "linear_attn.in_proj_qkvz")
    return gguf ? both("attn_qkv", "attn_gate") : both("in_proj_qkv", "in_proj_z");
  if (linear == "linear_attn.in_proj_ba")
    return gguf ? both("ssm_beta", "ssm_alpha") : both("in_proj_b", "in_proj_a");
  return {};
}

const std::vector<std::string>& name_prefixes() {
  static const std::vector<std::string> all = {"",
                                               "model.",
                                               "transformer.",
                                               "decoder.",
                                               "backbone.",
                                               "gpt_neox.",
                                               "model.decoder.",
                                               "language_model.model.",
                                               "model.language_model."};
  return all;
}

}  // namespace tessera::weights
