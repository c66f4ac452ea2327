// Qwen 1 to 3.5, dense and mixtures of experts.
#include <fmt/format.h>

#include "mixers.h"

namespace tessera::hf {
namespace {

// Qwen2Config and Qwen3Config: the first max_window_layers (default 28) see everything, those
// after them sliding_window (default 4096) tokens, and nothing slides unless use_sliding_window
// (default false) says so; layer_types overrides the split.
void add_windowed_layers(Config& config, LayerDesign design, ModelShape& model) {
  std::optional<std::int64_t> window;
  if (config.flag("use_sliding_window", false)) {
    window = config.optional_size({"sliding_window"}, kTokensRange);
    if (!config.written("sliding_window")) window = 4096;
  }
  const std::int64_t num_full = config.size({"max_window_layers"}, {0, kLayersRange.high}, 28);
  const auto sliding = config.sliding_layers(model.num_layers);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool slides = sliding ? (*sliding)[static_cast<std::size_t>(i)] : i >= num_full;
    design.attention_window = slides ? window : std::nullopt;
    add_layer(model, make_layer(design));
  }
}

bool listed(const Json* layers, std::int64_t index) {
  if (layers == nullptr) return false;
  for (const Json& layer : *layers) {
    if (layer == index) return true;
  }
  return false;
}

void check_layer_list(Config& config, const Json* layers, const ModelShape& model) {
  if (layers == nullptr) return;
  const std::string path = config.path() + ": mlp_only_layers";
  if (layers->size() > static_cast<std::size_t>(model.num_layers)) {
    config.fail("mlp_only_layers",
                fmt::format("{} entries for {} layers", layers->size(), model.num_layers));
  }
  for (const double index :
       json_numbers(*layers, path, 0, static_cast<double>(model.num_layers - 1))) {
    if (static_cast<double>(static_cast<std::int64_t>(index)) != index)
      config.fail("mlp_only_layers", fmt::format("{} is not a layer index", index));
  }
}

void refuse_windows(Config& config) {
  if (!config.flag("use_sliding_window", false)) return;
  config.fail("use_sliding_window",
              "which layers of a Qwen mixture slide differs between releases of transformers, so "
              "only false is understood",
              ErrorCode::unsupported);
}

// `sparse` lacks its routed experts. Every layer is sparse where decoder_sparse_step is 1 and
// mlp_only_layers empty, which are the defaults of both classes.
void add_sparse_layers(Config& config, const LayerDesign& dense, LayerDesign sparse,
                       ModelShape& model) {
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange);
  read_experts(config, {"num_experts", "num_local_experts"}, sparse);
  const std::int64_t step = config.size({"decoder_sparse_step"}, kLayersRange, 1);
  const Json* mlp_only = config.find("mlp_only_layers");
  check_layer_list(config, mlp_only, model);
  const LayerShape dense_layer = make_layer(dense);
  const LayerShape sparse_layer = make_layer(sparse);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool is_sparse = (i + 1) % step == 0 && !listed(mlp_only, i);
    add_layer(model, is_sparse ? sparse_layer : dense_layer);
  }
}

// Qwen3NextConfig and Qwen3_5TextConfig: attention whose queries bring a gate in every fourth
// layer, gated delta nets in the others. `make`: the design of the feed-forward network of a layer.
template <class Make>
void add_hybrid_layers(Config& config, const DeltaNet& net, const Make& make, ModelShape& model) {
  const std::int64_t period = config.size({"full_attention_interval"}, kLayersRange, 4);
  const auto names =
      config.layer_names("layer_types", model.num_layers, {"full_attention", "linear_attention"});
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const LayerDesign design = make(i);
    const bool full =
        names ? (*names)[static_cast<std::size_t>(i)] == "full_attention" : (i + 1) % period == 0;
    LayerShape layer;
    if (full) {
      add_attention(design, layer);
    } else {
      add_delta_net(design, net, layer);
    }
    add_feed_forward(design, layer);
    layer.other_parameters += design.norm_parameters;
    add_layer(model, layer);
  }
}

LayerDesign hybrid_design(Config& config, const ModelShape& model) {
  LayerDesign design = llama_design(model);
  design.qk_norm = design.output_gate = true;
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  return design;
}

void read_hybrid_mixture(Config& config, const LlamaDefaults& sizes, std::int64_t num_experts,
                         std::int64_t num_active, ModelShape& model) {
  read_llama_sizes(config, sizes, model);
  const LayerDesign dense = hybrid_design(config, model);
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange, 512);
  sparse.num_experts = config.size({"num_experts"}, kExpertsRange, num_experts);
  sparse.num_active_experts =
      config.size({"num_experts_per_tok"}, {1, sparse.num_experts}, num_active);
  sparse.shared_ffn_size = config.size({"shared_expert_intermediate_size"}, kSizeRange, 512);
  sparse.norm_parameters += model.hidden_size;  // the gate of that expert
  const std::int64_t step = config.size({"decoder_sparse_step"}, kLayersRange, 1);
  const Json* mlp_only = config.find("mlp_only_layers");
  check_layer_list(config, mlp_only, model);
  add_hybrid_layers(
      config, read_delta_net(config),
      [&](std::int64_t i) { return (i + 1) % step == 0 && !listed(mlp_only, i) ? sparse : dense; },
      model);
}

}  // namespace

// Qwen 1 (its own code): seq_length tokens, untied, biases as in Qwen2. intermediate_size is that
// of gate and up together.
void read_qwen(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = config.size({"seq_length"}, kTokensRange, 8192)},
                   model);
  if (model.ffn_size % 2 != 0)
    config.fail("intermediate_size", "not even, for two halves of a gate");
  model.ffn_size /= 2;
  LayerDesign design = llama_design(model);
  design.qkv_bias = true;
  add_layers(model, make_layer(design));
}

// Qwen2Config defaults: 32 key-value heads, 32768 positions, untied. Biases are not an option:
// query, key and value have one, the output has none.
void read_qwen2(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 32768, .num_kv_heads = 32, .head_dim = {}},
                   model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = true;
  add_windowed_layers(config, design, model);
}

// Qwen3Config defaults: 32 key-value heads of 128, 32768 positions, untied, no biases.
void read_qwen3(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 32768, .num_kv_heads = 32, .head_dim = 128},
                   model);
  LayerDesign design = llama_design(model);
  design.qk_norm = true;
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  add_windowed_layers(config, design, model);
}

// Qwen2MoeConfig defaults: 16 key-value heads, 32768 positions, untied, every layer sparse, an
// expert of its own width that every token visits, with a gate of one output. Biases as in Qwen2.
void read_qwen2_moe(Config& config, ModelShape& model) {
  refuse_windows(config);
  read_llama_sizes(config, {.max_context_tokens = 32768, .num_kv_heads = 16, .head_dim = {}},
                   model);
  LayerDesign dense = llama_design(model);
  dense.qkv_bias = config.flag("qkv_bias", true);
  LayerDesign sparse = dense;
  sparse.shared_ffn_size = config.size({"shared_expert_intermediate_size"}, kSizeRange);
  sparse.norm_parameters += model.hidden_size;  // the gate of that expert
  add_sparse_layers(config, dense, sparse, model);
}

// Qwen3MoeConfig defaults: 4 key-value heads, 32768 positions, untied, no biases, every layer
// sparse. Its attention falls back to
// hidden_size / num_heads where head_dim is absent.
void read_qwen3_moe(Config& config, ModelShape& model) {
  refuse_windows(config);
  read_llama_sizes(config, {.max_context_tokens = 32768, .num_kv_heads = 4, .head_dim = {}}, model);
  LayerDesign dense = llama_design(model);
  dense.qk_norm = true;
  dense.qkv_bias = dense.output_bias = config.flag("attention_bias", false);
  add_sparse_layers(config, dense, dense, model);
}

void read_qwen3_next(Config& config, ModelShape& model) {
  read_hybrid_mixture(
      config, {.max_context_tokens = 32768, .num_kv_heads = 2, .head_dim = 256, .ffn_size = 5632},
      512, 10, model);
}

// Their dense layers are of no size: every layer is sparse.
void read_qwen3_5_moe(Config& config, ModelShape& model) {
  read_hybrid_mixture(
      config, {.max_context_tokens = 32768, .num_kv_heads = 2, .head_dim = 256, .ffn_size = 512},
      256, 8, model);
}

void read_qwen3_5(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 32768, .num_kv_heads = 4, .head_dim = 256},
                   model);
  const LayerDesign design = hybrid_design(config, model);
  add_hybrid_layers(
      config, read_delta_net(config), [&](std::int64_t) { return design; }, model);
}

// OLMo Hybrid (OlmoHybridConfig): the same layers with OLMo 2's norms over the heads, heads of its
// own in the delta nets.
void read_olmo_hybrid(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 65536}, model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  DeltaNet net;
  net.num_key_heads = config.size({"linear_num_key_heads"}, kHeadsRange, model.num_heads);
  net.num_value_heads = config.size({"linear_num_value_heads"}, kHeadsRange, model.num_heads);
  net.key_dim = config.size({"linear_key_head_dim"}, kHeadDimRange,
                            3 * model.hidden_size / (4 * net.num_key_heads));
  net.value_dim = config.size({"linear_value_head_dim"}, kHeadDimRange, 2 * net.key_dim);
  net.kernel = config.size({"linear_conv_kernel_dim"}, kKernelRange, 4);
  add_hybrid_layers(
      config, net, [&](std::int64_t) { return design; }, model);
  for (LayerShape& layer : model.layer_classes) {
    if (layer.attends())
      layer.other_parameters += (model.num_heads + model.num_kv_heads) * model.head_dim;
  }
}

}  // namespace tessera::hf
