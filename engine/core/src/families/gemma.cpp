// Gemma 3: Gemma 2 with norms over heads, of which google's files leave most to the class; Gemma 3n
// and 4: layers of unlike heads, the last of which attend to keys and values of earlier ones, and
// inputs that each layer gets by token.
#include <fmt/format.h>

#include "switches.h"

namespace tessera::hf {
namespace {

/// Of a table of `width` numbers for each layer and token, and the ways of a layer into and out of
/// that width. 0: none.
struct LayerInputs {
  std::int64_t width = 0;

  void add_to(LayerShape& layer, std::int64_t hidden) const {
    if (width == 0) return;
    layer.linears.push_back({"per_layer_input.in_proj", hidden, width});
    layer.linears.push_back({"per_layer_input.out_proj", width, hidden});
    layer.other_parameters += hidden;  // a norm
  }
};

LayerInputs read_layer_inputs(Config& config, ModelShape& model) {
  const LayerInputs inputs{config.size({"hidden_size_per_layer_input"}, {0, kSizeRange.high}, 256)};
  if (inputs.width == 0) return inputs;
  const std::int64_t vocab = config.size({"vocab_size_per_layer_input"}, kVocabRange, 262144);
  const std::int64_t all = model.num_layers * inputs.width;
  model.layer_embedding_parameters = vocab * all;
  model.embedding_other_parameters += model.hidden_size * all + inputs.width;
  return inputs;
}

/// Whether each layer sees a window only: as written, or all but every `period`-th.
std::vector<bool> read_sliding(Config& config, const ModelShape& model, std::int64_t period) {
  if (const auto written = config.sliding_layers(model.num_layers)) return *written;
  std::vector<bool> sliding;
  for (std::int64_t i = 0; i < model.num_layers; ++i) sliding.push_back((i + 1) % period != 0);
  return sliding;
}

/// Of layers that see everything, in Gemma 4.
struct FullHeads {
  std::int64_t head_dim = 0, num_kv_heads = 0;
};

// By keys of their own, or in per_layer_config, where transformers writes what differs by layer.
FullHeads read_full_heads(Config& config, const std::vector<bool>& sliding, bool own_number,
                          const ModelShape& model) {
  const SizeRange heads{1, model.num_heads};
  FullHeads full{config.size({"global_head_dim"}, kHeadDimRange, 512),
                 own_number ? config.size({"num_global_key_value_heads"}, heads, model.num_kv_heads)
                            : model.num_kv_heads};
  const Json* by_layer = config.find("per_layer_config");
  if (by_layer == nullptr) return full;
  for (std::size_t i = 0; i < sliding.size(); ++i) {
    const std::string key = std::to_string(i);
    if (sliding[i] || !by_layer->is_object() || !by_layer->contains(key)) continue;
    Config own(by_layer->at(key), fmt::format("{}: per_layer_config.{}", config.path(), i));
    full.head_dim = own.size({"head_dim"}, kHeadDimRange, full.head_dim);
    full.num_kv_heads = own.size({"num_key_value_heads"}, heads, full.num_kv_heads);
    break;
  }
  return full;
}

}  // namespace

// Gemma3TextConfig defaults: 8 heads, 4 key-value heads of 256, 131072 positions, a vocabulary of
// 262208, tied, every sixth layer full.
void read_gemma3(Config& config, ModelShape& model) {
  if (config.flag("use_bidirectional_attention", false)) {
    config.fail("use_bidirectional_attention",
                "an encoder, not a decoder; only false is understood", ErrorCode::unsupported);
  }
  Switches switches = *find_switches("gemma2");
  switches.sizes.max_context_tokens = 131072;
  switches.sizes.num_heads = 8;
  switches.sizes.vocab_size = 262208;
  switches.sizes.stretches_context = false;
  switches.qk_norm = QkNorm::head_width;
  switches.windows.period =
      config.size({"sliding_window_pattern", "_sliding_window_pattern"}, kLayersRange, 6);
  read_switches(config, switches, model);
}

// Gemma3nTextConfig defaults: 8 heads, 2 key-value heads of 256, 32768 positions, a window of 512,
// every fifth layer full, four residual streams (AltUp), beside each layer a way of low rank
// (LAuReL).
void read_gemma3n(Config& config, ModelShape& model) {
  constexpr SizeRange kStreamsRange{1, 64};
  const std::int64_t num_layers = config.size({"num_hidden_layers"}, kLayersRange);
  const auto widths = config.layer_sizes({"intermediate_size"}, num_layers, kSizeRange, 16384);
  read_llama_sizes(config,
                   {.max_context_tokens = 32768,
                    .num_kv_heads = 2,
                    .head_dim = 256,
                    .tied_embeddings = true,
                    .num_heads = 8,
                    .vocab_size = 262400,
                    .ffn_size = widths.front(),
                    .listed_ffn_sizes = true,
                    .stretches_context = false},
                   model);
  const LayerInputs inputs = read_layer_inputs(config, model);
  const std::int64_t hidden = model.hidden_size;
  const std::int64_t streams = config.size({"altup_num_inputs"}, kStreamsRange, 4);
  const std::int64_t rank = config.size({"laurel_rank"}, kSizeRange, 64);
  model.embedding_other_parameters += (streams - 1) * hidden * hidden;
  model.final_other_parameters += (streams - 1) * hidden * hidden;
  const std::int64_t window = config.size({"sliding_window"}, kTokensRange, 512);
  const std::vector<bool> sliding = read_sliding(config, model, 5);
  const std::int64_t num_shared = config.size({"num_kv_shared_layers"}, {0, num_layers - 1}, 15);
  LayerDesign design = llama_design(model);
  design.qk_norm = true;
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.norm_parameters = 4 * hidden;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    design.ffn_size = widths[at];
    design.attention_window = sliding[at] ? std::optional(window) : std::nullopt;
    design.shares_kv = i >= num_layers - num_shared;
    LayerShape layer = make_layer(design);
    inputs.add_to(layer, hidden);
    layer.linears.push_back({"laurel.in_proj", hidden, rank});
    layer.linears.push_back({"laurel.out_proj", rank, hidden});
    layer.other_parameters += hidden;  // the norm after it
    // How streams are predicted and corrected, by a router with a norm, and a scale.
    layer.other_parameters +=
        streams * streams + streams * streams * streams + streams * hidden + hidden + hidden;
    add_layer(model, layer);
  }
}

// Gemma4TextConfig defaults: 8 heads, 4 key-value heads of 256 in layers with a window of 512,
// heads of 512 in every sixth and the last, which see everything, and where attention_k_eq_v says
// so have key-value heads of their own number, whose keys are their values.
void read_gemma4(Config& config, ModelShape& model) {
  const Json* directions = config.find("use_bidirectional_attention");
  if (directions != nullptr && *directions == "all") {
    config.fail("use_bidirectional_attention", "an encoder, not a decoder", ErrorCode::unsupported);
  }
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 4,
                    .head_dim = 256,
                    .tied_embeddings = true,
                    .num_heads = 8,
                    .vocab_size = 262144,
                    .ffn_size = 9216,
                    .stretches_context = false},
                   model);
  const LayerInputs inputs = read_layer_inputs(config, model);
  const std::int64_t hidden = model.hidden_size, num_layers = model.num_layers;
  const std::int64_t window = config.size({"sliding_window"}, kTokensRange, 512);
  std::vector<bool> sliding = read_sliding(config, model, 6);
  sliding.back() = false;
  const std::int64_t num_shared = config.size({"num_kv_shared_layers"}, {0, num_layers}, 0);
  const bool keys_are_values = config.flag("attention_k_eq_v", false);
  const FullHeads full = read_full_heads(config, sliding, keys_are_values, model);
  const bool wide_where_shared = config.flag("use_double_wide_mlp", false);
  LayerDesign design = llama_design(model);
  design.qk_norm = true;
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.norm_parameters = 4 * hidden;
  if (config.flag("enable_moe_block", false)) {
    design.num_experts = config.size({"num_experts"}, kExpertsRange);
    design.num_active_experts = config.size({"top_k_experts"}, {1, design.num_experts});
    design.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange);
    // Three more norms; a scale of the router's input and of each expert.
    design.norm_parameters += 3 * hidden + hidden + design.num_experts;
  }
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const bool slides = sliding[static_cast<std::size_t>(i)];
    design.attention_window = slides ? std::optional(window) : std::nullopt;
    design.head_dim = slides ? model.head_dim : full.head_dim;
    design.num_kv_heads = slides ? model.num_kv_heads : full.num_kv_heads;
    design.keys_are_values = keys_are_values && !slides;
    design.shares_kv = i >= num_layers - num_shared;
    const std::int64_t width = wide_where_shared && design.shares_kv ? 2 : 1;
    // The dense network stands beside the experts where there are any.
    (design.num_experts > 0 ? design.shared_ffn_size : design.ffn_size) = width * model.ffn_size;
    LayerShape layer = make_layer(design);
    inputs.add_to(layer, hidden);
    add_layer(model, layer);
  }
  if (design.num_experts > 0) model.ffn_size = design.ffn_size;
}

}  // namespace tessera::hf
