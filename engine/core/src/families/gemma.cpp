// Gemma 2 and 3: four norms a layer, an explicit head size, windows in most layers.
#include "family.h"

namespace tessera::hf {
namespace {

LayerDesign gemma_design(Config& config, const ModelShape& model) {
  LayerDesign design = llama_design(model);
  design.norm_parameters = 4 * model.hidden_size;  // before and after attention, and the same for
                                                   // the feed-forward network
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  return design;
}

// Every `period`-th layer sees all tokens, unless layer_types says otherwise. Both config classes
// have a window of 4096 by default; null switches it off.
void add_alternating_layers(Config& config, LayerDesign design, std::int64_t period,
                            ModelShape& model) {
  auto window = config.optional_size({"sliding_window"}, kTokensRange);
  if (!config.written("sliding_window")) window = 4096;
  const auto sliding = config.sliding_layers(model.num_layers);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool slides = sliding ? (*sliding)[static_cast<std::size_t>(i)] : (i + 1) % period != 0;
    design.attention_window = slides ? window : std::nullopt;
    add_layer(model, make_layer(design));
  }
}

}  // namespace

// Gemma2Config defaults: 4 key-value heads of 256, 8192 positions, tied.
void read_gemma2(Config& config, ModelShape& model) {
  read_llama_sizes(
      config,
      {.max_context_tokens = 8192, .num_kv_heads = 4, .head_dim = 256, .tied_embeddings = true},
      model);
  add_alternating_layers(config, gemma_design(config, model), 2, model);
}

// Gemma3TextConfig defaults: 8 heads, 4 key-value heads of 256, 131072 positions, a vocabulary of
// 262208, tied, every sixth layer full. Google's own files leave all of these to the class.
void read_gemma3(Config& config, ModelShape& model) {
  if (config.flag("use_bidirectional_attention", false)) {
    config.fail("use_bidirectional_attention",
                "an encoder, not a decoder; only false is understood", ErrorCode::unsupported);
  }
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 4,
                    .head_dim = 256,
                    .tied_embeddings = true,
                    .num_heads = 8,
                    .vocab_size = 262208,
                    .stretches_context = false},
                   model);
  LayerDesign design = gemma_design(config, model);
  design.qk_norm = true;
  const std::int64_t period =
      config.size({"sliding_window_pattern", "_sliding_window_pattern"}, kLayersRange, 6);
  add_alternating_layers(config, design, period, model);
}

}  // namespace tessera::hf
