// gpt-oss: experts with biases, attention sinks, and a window in every second layer.
#include "family.h"

namespace tessera::hf {

// GptOssConfig defaults: 64 heads, 8 key-value heads of 64, 131072 positions, untied, biases on all
// projections, a window of 128 tokens in the first layer and every second one after it.
void read_gpt_oss(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 8,
                    .head_dim = 64,
                    .num_heads = 64,
                    .vocab_size = 201088},
                   model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", true);
  read_experts(config, {"num_local_experts", "num_experts"}, design);
  auto window = config.optional_size({"sliding_window"}, kTokensRange);
  if (!config.written("sliding_window")) window = 128;
  const auto sliding = config.sliding_layers(model.num_layers);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool slides = sliding ? (*sliding)[static_cast<std::size_t>(i)] : i % 2 == 0;
    design.attention_window = slides ? window : std::nullopt;
    LayerShape layer = make_layer(design);
    const std::int64_t expert_bias = 2 * model.ffn_size + model.hidden_size;
    const std::int64_t router_bias = 1;
    layer.other_parameters += design.num_experts * (expert_bias + router_bias);
    layer.idle_parameters = (design.num_experts - design.num_active_experts) * expert_bias;
    layer.other_parameters += model.num_heads;  // the sinks
    add_layer(model, layer);
  }
}

}  // namespace tessera::hf
