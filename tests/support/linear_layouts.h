#pragma once

#include <filesystem>
#include <functional>
#include <numeric>

#include "expect_error.h"
#include "folder.h"
#include "tessera/core/error.h"
#include "tessera/weights/linears.h"
#include "tessera/weights/tensor.h"
#include "weight_files.h"

// Small models written down by hand, for the tests of where each family keeps its matrices.
namespace tessera::weights {

using test::raw;

using Shape = std::vector<std::int64_t>;
/// Names and shapes of one layer; "{}" stands for its index.
using Layout = std::vector<std::pair<std::string, Shape>>;

// All of two layers, hidden size 8, 4 heads of 2.
inline const Json kLlama = {{"model_type", "llama"},    {"num_hidden_layers", 2},
                            {"hidden_size", 8},         {"num_attention_heads", 4},
                            {"num_key_value_heads", 2}, {"intermediate_size", 12},
                            {"vocab_size", 5}};
inline const Json kBloom = {
    {"model_type", "bloom"}, {"n_layer", 2}, {"n_head", 4}, {"hidden_size", 8}, {"vocab_size", 5}};
inline const Json kGpt2 = {
    {"model_type", "gpt2"}, {"n_layer", 2}, {"n_head", 4}, {"n_embd", 8}, {"vocab_size", 5}};
inline const Json kFalcon = {{"model_type", "falcon"},
                             {"num_hidden_layers", 2},
                             {"hidden_size", 8},
                             {"num_attention_heads", 4},
                             {"vocab_size", 5}};
inline const Json kOpt = {{"model_type", "opt"},      {"num_hidden_layers", 2}, {"hidden_size", 8},
                          {"num_attention_heads", 4}, {"ffn_dim", 32},          {"vocab_size", 5}};

inline Json with(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

inline const Layout kLlamaLayout = {{"model.layers.{}.self_attn.q_proj.weight", {8, 8}},
                                    {"model.layers.{}.self_attn.k_proj.weight", {4, 8}},
                                    {"model.layers.{}.self_attn.v_proj.weight", {4, 8}},
                                    {"model.layers.{}.self_attn.o_proj.weight", {8, 8}},
                                    {"model.layers.{}.mlp.gate_proj.weight", {12, 8}},
                                    {"model.layers.{}.mlp.up_proj.weight", {12, 8}},
                                    {"model.layers.{}.mlp.down_proj.weight", {8, 12}}};

inline std::string replaced(std::string text, const std::string& mark, const std::string& by) {
  const std::size_t at = text.find(mark);
  return at == std::string::npos ? text : text.replace(at, mark.size(), by);
}

inline Layout renamed(Layout layout, const std::string& mark, const std::string& by) {
  for (auto& [name, shape] : layout) name = replaced(name, mark, by);
  return layout;
}

inline std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

class Linears : public test::FolderTest {
 protected:
  /// Two layers of it, every element a number of its own.
  std::shared_ptr<const Weights> open(const Json& config, const Layout& layout) {
    std::vector<test::StoredTensor> tensors;
    float next = 0;
    for (int layer = 0; layer < 2; ++layer) {
      for (const auto& [name, shape] : layout) {
        std::string data;
        for (std::int64_t i = 0; i < elements(shape); ++i) data += raw(next++);
        tensors.push_back({replaced(name, "{}", std::to_string(layer)), "F32", shape, data});
      }
    }
    file("config.json", config.dump());
    file("model.safetensors", test::safetensors_file(tensors));
    return Weights::open(folder_.string());
  }

  static std::vector<float> read(const Weights& weights, const LinearWeight& linear) {
    std::vector<float> values(static_cast<std::size_t>(linear.parameters()));
    read_linear_f32(weights, linear, values);
    return values;
  }

  static std::vector<float> stored(const Weights& weights, const std::string& name) {
    const TensorInfo& tensor = weights.require(name);
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
    read_f32(weights, tensor, 0, values);
    return values;
  }

  static const LinearWeight& one(const std::vector<LinearWeight>& linears, std::int64_t layer,
                                 const std::string& name, std::int64_t copy = 0) {
    for (const LinearWeight& linear : linears) {
      if (linear.layer_index == layer && linear.linear == name && linear.copy == copy) {
        return linear;
      }
    }
    throw Error(ErrorCode::internal, "no linear " + name);
  }

  /// Every linear is one tensor as it is: `names[i]` for the i-th of the layer.
  void expect_plain(const Json& config, const Layout& layout) {
    const auto weights = open(config, layout);
    const ModelShape model = model_of(*weights);
    const auto linears = linears_of(*weights, model);
    ASSERT_EQ(linears.size(), 2 * layout.size()) << model.family;
    for (std::size_t i = 0; i < linears.size(); ++i) {
      const std::string name =
          replaced(layout[i % layout.size()].first, "{}", std::to_string(i / layout.size()));
      EXPECT_EQ(linears[i].tensor->name, name) << model.family << " " << describe(linears[i]);
      EXPECT_EQ(read(*weights, linears[i]), stored(*weights, name));
    }
  }
};

}  // namespace tessera::weights
