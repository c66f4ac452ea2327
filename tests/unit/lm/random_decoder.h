#pragma once

#include <span>
#include <string>
#include <vector>

#include "calibration.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/rng.h"
#include "tessera/weights/writer.h"

namespace tessera::lm {

/// A tiny decoder of random sizes and weights that `ranks` ranks can share: a Llama, a Qwen2 with
/// biases of q, k and v, or an OPT with all biases.
class RandomDecoder {
 public:
  RandomDecoder(std::uint64_t seed, std::int64_t ranks) : rng_(seed) {
    kind_ = pick(0, 2);
    const std::int64_t kv_heads = ranks * pick(1, 2);
    heads_ = kind_ == 2 ? kv_heads : kv_heads * pick(1, 3);
    kv_ = kv_heads * kHeadDim;
    hidden_ = heads_ * kHeadDim;
    ffn_ = ranks * pick(5, 20);
    layers_ = pick(1, 3);
    config_ = {{"hidden_size", hidden_},        {"num_hidden_layers", layers_},
               {"num_attention_heads", heads_}, {"vocab_size", kVocab},
               {"max_position_embeddings", 64}, {"tie_word_embeddings", pick(0, 1) == 1},
               {"torch_dtype", "float32"}};
    kind_ == 2 ? describe_opt() : describe_llama(kv_heads);
  }

  static constexpr std::int64_t kVocab = 50;

  void write(const std::string& folder) {
    write_file(folder + "/config.json", config_.dump());
    weights::SafetensorsWriter writer(folder + "/model.safetensors", specs_);
    for (const auto& spec : specs_) {
      const bool norm = spec.shape.size() == 1 && spec.name.ends_with("weight");
      std::vector<float> values(static_cast<std::size_t>(*weights::num_elements(spec.shape)));
      for (float& value : values)
        value = norm ? 1 + 0.2f * test::draw(rng_) : 0.2f * test::draw(rng_);
      writer.append(spec.name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  }

 private:
  static constexpr std::int64_t kHeadDim = 8;

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(rng_.uniform() * static_cast<double>(high - low + 1));
  }
  void add(const std::string& name, std::vector<std::int64_t> shape) {
    specs_.push_back({name, weights::DType::f32, std::move(shape)});
  }
  void add_linear(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    add(name + ".weight", {rows, columns});
    if (bias) add(name + ".bias", {rows});
  }

  void describe_llama(std::int64_t kv_heads) {
    const bool qwen = kind_ == 1, all_biases = !qwen && pick(0, 1) == 1;
    config_["architectures"] = {qwen ? "Qwen2ForCausalLM" : "LlamaForCausalLM"};
    config_["model_type"] = qwen ? "qwen2" : "llama";
    config_["num_key_value_heads"] = kv_heads;
    config_["intermediate_size"] = ffn_;
    config_["rms_norm_eps"] = 1e-5;
    if (!qwen) config_["attention_bias"] = config_["mlp_bias"] = all_biases;
    add("model.embed_tokens.weight", {kVocab, hidden_});
    if (!config_["tie_word_embeddings"]) add("lm_head.weight", {kVocab, hidden_});
    add("model.norm.weight", {hidden_});
    for (std::int64_t i = 0; i < layers_; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      add(layer + "input_layernorm.weight", {hidden_});
      add(layer + "post_attention_layernorm.weight", {hidden_});
      add_linear(layer + "self_attn.q_proj", hidden_, hidden_, qwen || all_biases);
      add_linear(layer + "self_attn.k_proj", kv_, hidden_, qwen || all_biases);
      add_linear(layer + "self_attn.v_proj", kv_, hidden_, qwen || all_biases);
      add_linear(layer + "self_attn.o_proj", hidden_, hidden_, all_biases);
      add_linear(layer + "mlp.gate_proj", ffn_, hidden_, all_biases);
      add_linear(layer + "mlp.up_proj", ffn_, hidden_, all_biases);
      add_linear(layer + "mlp.down_proj", hidden_, ffn_, all_biases);
    }
  }

  void describe_opt() {
    config_["architectures"] = {"OPTForCausalLM"};
    config_["model_type"] = "opt";
    config_["ffn_dim"] = ffn_;
    config_["word_embed_proj_dim"] = hidden_;
    const std::string decoder = "model.decoder.";
    add(decoder + "embed_tokens.weight", {kVocab, hidden_});
    if (!config_["tie_word_embeddings"]) add("lm_head.weight", {kVocab, hidden_});
    add(decoder + "embed_positions.weight", {64 + 2, hidden_});
    add_norm(decoder + "final_layer_norm");
    for (std::int64_t i = 0; i < layers_; ++i) {
      const std::string layer = decoder + "layers." + std::to_string(i) + ".";
      add_norm(layer + "self_attn_layer_norm");
      add_norm(layer + "final_layer_norm");
      for (const char* linear : {"q_proj", "k_proj", "v_proj", "out_proj"})
        add_linear(layer + "self_attn." + linear, hidden_, hidden_, true);
      add_linear(layer + "fc1", ffn_, hidden_, true);
      add_linear(layer + "fc2", hidden_, ffn_, true);
    }
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {hidden_});
    add(name + ".bias", {hidden_});
  }

  Rng rng_;
  std::int64_t kind_, heads_, kv_, hidden_, ffn_, layers_;
  Json config_;
  std::vector<weights::TensorSpec> specs_;
};

}  // namespace tessera::lm
