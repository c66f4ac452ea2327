#include "tessera/profile/random_model.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/output.h"
#include "tessera/core/rng.h"
#include "tessera/kernels/types.h"
#include "tessera/weights/writer.h"

namespace tessera::profile {
namespace {

constexpr std::size_t kRandom = 1 << 20;  // numbers that are drawn; all tensors repeat them

using weights::TensorSpec;

bool has(const LayerShape& layer, std::string_view name) {
  return std::any_of(layer.linears.begin(), layer.linears.end(),
                     [&](const LinearShape& linear) { return linear.name == name; });
}

// Whether the layer has just these matrices.
bool is_of(const LayerShape& layer, std::initializer_list<std::string_view> names) {
  return layer.linears.size() == names.size() &&
         std::all_of(names.begin(), names.end(), [&](auto name) { return has(layer, name); });
}

void refuse_shape(const ModelShape& shape, const char* what) {
  refuse(ErrorCode::unsupported, "model",
         "{} has {}, of which no random weights are made; name a folder with a checkpoint",
         shape.name, what);
}

/// Names and sizes of what is written.
class Layout {
 public:
  Layout(const ModelShape& shape, std::int64_t num_layers)
      : shape_(shape), layer_(shape.layer_classes.front()), num_layers_(num_layers) {
    if (shape.layer_classes.size() > 1) refuse_shape(shape, "layers that are not alike");
    if (layer_.latent_width) refuse_shape(shape, "attention to latents");
    gated_ = is_of(layer_,
                   {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"});
    const bool plain =
        is_of(layer_, {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj", "down_proj"});
    if (!gated_ && !plain) refuse_shape(shape, "layers with other matrices than dense ones");
    const bool like_opt = layer_.num_heads == layer_.num_kv_heads &&
                          layer_.num_heads * layer_.head_dim == shape.hidden_size;
    if (plain && !like_opt) refuse_shape(shape, "fewer KV heads beside a network without gate");
  }

  Json config() const {
    const std::int64_t hidden = shape_.hidden_size, ffn = shape_.ffn_size;
    Json config{{"num_hidden_layers", num_layers_},
                {"hidden_size", hidden},
                {"num_attention_heads", layer_.num_heads},
                {"vocab_size", shape_.vocab_size},
                {"max_position_embeddings", shape_.max_context_tokens},
                {"tie_word_embeddings", true},
                {"torch_dtype", "bfloat16"}};
    if (gated_) {
      config.update({{"model_type", "llama"},
                     {"intermediate_size", ffn},
                     {"num_key_value_heads", layer_.num_kv_heads},
                     {"head_dim", layer_.head_dim},
                     {"rms_norm_eps", 1e-5}});
    } else {
      config.update({{"model_type", "opt"},
                     {"ffn_dim", ffn},
                     {"word_embed_proj_dim", hidden},
                     {"activation_function", "relu"},
                     {"do_layer_norm_before", true}});
    }
    return config;
  }

  std::vector<TensorSpec> tensors() const {
    std::vector<TensorSpec> specs;
    const std::int64_t hidden = shape_.hidden_size;
    const std::string top = gated_ ? "model." : "model.decoder.";
    add(specs, top + "embed_tokens", {shape_.vocab_size, hidden});
    if (!gated_) add(specs, top + "embed_positions", {shape_.max_context_tokens + 2, hidden});
    add(specs, top + (gated_ ? "norm" : "final_layer_norm"), {hidden});
    for (std::int64_t i = 0; i < num_layers_; ++i) {
      const std::string block = top + "layers." + std::to_string(i) + ".";
      add(specs, block + (gated_ ? "input_layernorm" : "self_attn_layer_norm"), {hidden});
      add(specs, block + (gated_ ? "post_attention_layernorm" : "final_layer_norm"), {hidden});
      for (const LinearShape& linear : layer_.linears)
        add(specs, block + name_of_linear(linear.name), {linear.out_features, linear.in_features});
    }
    return specs;
  }

 private:
  std::string name_of_linear(const std::string& linear) const {
    const bool of_attention = linear == "q_proj" || linear == "k_proj" || linear == "v_proj";
    if (of_attention) return "self_attn." + linear;
    if (linear == "o_proj") return gated_ ? "self_attn.o_proj" : "self_attn.out_proj";
    if (gated_) return "mlp." + linear;
    return linear == "up_proj" ? "fc1" : "fc2";
  }

  // OPT has a bias beside all but its tables.
  void add(std::vector<TensorSpec>& specs, const std::string& name,
           std::vector<std::int64_t> shape) const {
    const std::int64_t rows = shape.front();
    specs.push_back({name + ".weight", weights::DType::bf16, std::move(shape)});
    const bool is_table = name.find("embed_") != std::string::npos;
    if (!gated_ && !is_table) specs.push_back({name + ".bias", weights::DType::bf16, {rows}});
  }

  const ModelShape& shape_;
  const LayerShape& layer_;
  std::int64_t num_layers_;
  bool gated_ = false;
};

void write(const Layout& layout, const std::string& folder) {
  Rng rng(1);
  std::vector<std::uint16_t> numbers(kRandom);
  for (std::uint16_t& number : numbers)
    number = kernels::f32_to_bf16(static_cast<float>(0.1 * (rng.uniform() - 0.5)));
  const std::vector<TensorSpec> tensors = layout.tensors();
  weights::SafetensorsWriter writer(folder + "/model.safetensors", tensors);
  for (const TensorSpec& tensor : tensors) {
    auto left = static_cast<std::size_t>(*weights::num_elements(tensor.shape));
    while (left > 0) {
      const std::size_t count = std::min(left, kRandom);
      writer.append(tensor.name, std::as_bytes(std::span(numbers).first(count)));
      left -= count;
    }
  }
  writer.finish();
  write_file(folder + "/config.json", json_text(layout.config()));
}

// Never committed, so it goes; what a killed process left goes with the next one.
std::string target() {
  std::error_code failure;
  return (std::filesystem::temp_directory_path(failure) / "tessera_random_model").string();
}

}  // namespace

RandomModel::RandomModel(const ModelShape& shape, std::int64_t num_layers) {
  const Layout layout(shape, num_layers);
  folder_ = std::make_unique<OutputFolder>(target());
  write(layout, folder_->scratch_path());
}

RandomModel::~RandomModel() = default;

std::string RandomModel::path() const { return folder_->scratch_path(); }

}  // namespace tessera::profile
