#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "calibration.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/kernels/types.h"
#include "tessera/weights/writer.h"

namespace tessera::test {

/// Statistics of random inputs, 300 tokens with Hessians.
/// @param features of each input: "layers.0.q_proj" to its in_features
/// @param metadata beyond what every such file has
inline void write_random_statistics(const std::string& path,
                                    const std::map<std::string, std::int64_t>& features,
                                    const std::map<std::string, std::string>& metadata, Rng& rng) {
  weights::WriterOptions options{.metadata = {{"format", "tessera.activation_statistics/1"},
                                              {"model", "tiny"},
                                              {"source", "random"},
                                              {"num_tokens", "300"},
                                              {"num_samples", "3"}}};
  options.metadata.insert(metadata.begin(), metadata.end());
  std::vector<weights::TensorSpec> specs;
  for (const auto& [name, k] : features) {
    for (const char* q : {"mean", "variance", "abs_mean", "abs_max"})
      specs.push_back({name + "." + q, weights::DType::f32, {k}});
    for (const char* q : {"token_variance", "token_mean_square"})
      specs.push_back({name + "." + q, weights::DType::f32, {1}});
    specs.push_back({name + ".hessian", weights::DType::f32, {k, k}});
  }
  weights::SafetensorsWriter writer(path, specs, options);
  for (const auto& [name, k] : features) {
    const quant::LinearStatistics s = statistics_of(random_inputs(300, k, rng));
    const auto put = [&, &name = name](const char* quantity, const float* data,
                                       std::int64_t count) {
      writer.append(name + "." + quantity,
                    std::as_bytes(std::span(data, static_cast<std::size_t>(count))));
    };
    put("mean", s.mean.data(), k);
    put("variance", s.variance.data(), k);
    put("abs_mean", s.abs_mean.data(), k);
    put("abs_max", s.abs_max.data(), k);
    const auto variance = static_cast<float>(s.token_variance);
    const auto square = static_cast<float>(s.token_mean_square);
    put("token_variance", &variance, 1);
    put("token_mean_square", &square, 1);
    put("hessian", s.hessian->data(), k * k);
  }
  writer.finish();
}

/// A llama of random weights in BF16 with a tokenizer that is none, and statistics of random
/// inputs.
class TinyLlama {
 public:
  static constexpr std::int64_t kLayers = 3, kHidden = 64, kFfn = 96, kVocab = 50;

  explicit TinyLlama(std::uint64_t seed) : rng_(seed) {}

  void write(const std::string& folder, const Json& changes = Json::object()) {
    std::filesystem::create_directories(folder);
    Json config{{"architectures", {"LlamaForCausalLM"}},
                {"model_type", "llama"},
                {"hidden_size", kHidden},
                {"intermediate_size", kFfn},
                {"num_hidden_layers", kLayers},
                {"num_attention_heads", 4},
                {"num_key_value_heads", 2},
                {"vocab_size", kVocab},
                {"rms_norm_eps", 1e-5},
                {"max_position_embeddings", 64},
                {"tie_word_embeddings", false},
                {"torch_dtype", "bfloat16"}};
    config.update(changes);
    write_file(folder + "/config.json", config.dump());
    write_file(folder + "/tokenizer.json", "{\"version\": \"1.0\"}");
    write_file(folder + "/.secret", "stays");
    std::vector<weights::TensorSpec> specs;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
      specs.push_back({name, weights::DType::bf16, std::move(shape)});
    };
    add("model.embed_tokens.weight", {kVocab, kHidden});
    add("lm_head.weight", {kVocab, kHidden});
    add("model.norm.weight", {kHidden});
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      add(layer + "input_layernorm.weight", {kHidden});
      add(layer + "post_attention_layernorm.weight", {kHidden});
      add(layer + "self_attn.q_proj.weight", {kHidden, kHidden});
      add(layer + "self_attn.k_proj.weight", {kHidden / 2, kHidden});
      add(layer + "self_attn.v_proj.weight", {kHidden / 2, kHidden});
      add(layer + "self_attn.o_proj.weight", {kHidden, kHidden});
      add(layer + "mlp.gate_proj.weight", {kFfn, kHidden});
      add(layer + "mlp.up_proj.weight", {kFfn, kHidden});
      add(layer + "mlp.down_proj.weight", {kHidden, kFfn});
    }
    weights::SafetensorsWriter writer(folder + "/model.safetensors", specs);
    for (const auto& spec : specs) {
      const bool is_norm = spec.shape.size() == 1;
      std::vector<std::uint16_t> values(
          static_cast<std::size_t>(*weights::num_elements(spec.shape)));
      for (std::uint16_t& v : values)
        v = kernels::f32_to_bf16(is_norm ? 1 + 0.2f * draw(rng_) : 0.05f * draw(rng_));
      writer.append(spec.name, std::as_bytes(std::span(values)));
    }
    writer.finish();
  }

  /// Of all layers but those from `num_layers` on; k and v are aliases of q, up of gate.
  void write_statistics(const std::string& path, std::int64_t num_layers = kLayers) {
    std::map<std::string, std::int64_t> features;
    std::map<std::string, std::string> aliases;
    for (std::int64_t i = 0; i < num_layers; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      for (const char* linear : {"q_proj", "o_proj", "gate_proj"})
        features[layer + linear] = kHidden;
      features[layer + "down_proj"] = kFfn;
      for (const char* linear : {"k_proj", "v_proj"})
        aliases["alias:" + layer + linear] = layer + "q_proj";
      aliases["alias:" + layer + "up_proj"] = layer + "gate_proj";
    }
    write_random_statistics(path, features, aliases, rng_);
  }

 private:
  Rng rng_;
};

}  // namespace tessera::test
