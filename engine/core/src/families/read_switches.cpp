// The one reader of all families that are rows of switches.cpp.
#include "switches.h"

namespace tessera::hf {
namespace {

bool is_on(Config& config, const Switch& s) {
  return s.key == nullptr ? s.on : config.flag(s.key, s.on);
}

std::int64_t qk_norm_parameters(Config& config, const Switches& switches,
                                const LayerDesign& design) {
  if (switches.qk_norm_key != nullptr &&
      !config.flag(switches.qk_norm_key, switches.qk_norm_unless_written))
    return 0;
  switch (switches.qk_norm) {
    case QkNorm::none:
    case QkNorm::head_alone:
      return 0;
    case QkNorm::head_width:
      return 2 * design.head_dim;
    case QkNorm::head_width_and_bias:
      return 4 * design.head_dim;
    case QkNorm::each_head:
    case QkNorm::all_heads:
      return (design.num_heads + design.num_kv_heads) * design.head_dim;
  }
  return 0;
}

/// The window of each layer.
std::vector<std::optional<std::int64_t>> read_windows(Config& config, const Windows& windows,
                                                      const ModelShape& model) {
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  if (windows.key == nullptr) return std::vector<std::optional<std::int64_t>>(num_layers);
  auto tokens = config.optional_size({windows.key}, kTokensRange);
  if (!config.written(windows.key)) tokens = windows.tokens;
  std::int64_t period = windows.period, first_period = 1, first = 0;
  if (windows.period_key != nullptr)
    period = config.size({windows.period_key}, kLayersRange, period);
  if (windows.first != nullptr) first = config.size({windows.first}, {0, kLayersRange.high}, 0);
  if (windows.first_period_key != nullptr)
    first_period = config.size({windows.first_period_key}, kLayersRange, first_period);
  const auto sliding = config.sliding_layers(model.num_layers);
  std::vector<std::optional<std::int64_t>> found;
  for (std::size_t i = 0; i < num_layers; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t place =
        (at < first ? at : at - first) + (windows.period_begins_full ? 0 : 1);
    const std::int64_t own = at < first ? first_period : period;
    const bool slides = sliding ? (*sliding)[i] : own == 0 || place % own != 0;
    found.push_back(slides ? tokens : std::nullopt);
  }
  return found;
}

/// Which layers have experts, and `design` with them.
std::vector<bool> read_expert_layers(Config& config, const Experts& experts, LayerDesign& design,
                                     ModelShape& model) {
  std::vector<bool> sparse(static_cast<std::size_t>(model.num_layers), false);
  if (experts.total == nullptr) return sparse;
  constexpr SizeRange kSharedExpertsRange{0, 256};
  // As transformers 5 saves it, whatever the family calls it.
  design.num_experts = config.size({experts.total, "num_local_experts"}, kExpertsRange);
  design.num_active_experts = config.size({experts.active}, {1, design.num_experts});
  design.ffn_size = model.ffn_size = config.size({experts.width}, kSizeRange);
  const std::int64_t num_shared =
      experts.shared == nullptr
          ? experts.num_shared
          : config.size({experts.shared}, kSharedExpertsRange, experts.num_shared);
  design.shared_ffn_size = experts.shared_width == nullptr
                               ? design.ffn_size * num_shared
                               : config.size({experts.shared_width}, {0, kSizeRange.high}, 0);
  const std::int64_t num_dense =
      experts.first_dense == nullptr
          ? experts.num_dense
          : config.size({experts.first_dense}, {0, kLayersRange.high}, experts.num_dense);
  const std::int64_t step =
      experts.step == nullptr ? 1 : config.size({experts.step}, kLayersRange, 1);
  std::int64_t last =
      experts.last == nullptr ? -1 : config.size({experts.last}, {-1, kLayersRange.high}, -1);
  if (last < 0) last = model.num_layers;
  const auto kinds = config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t place = experts.step_ends ? i + 1 : i;
    sparse[at] =
        kinds ? (*kinds)[at] == "sparse" : i >= num_dense && i <= last && place % step == 0;
  }
  return sparse;
}

}  // namespace

void read_switches(Config& config, const Switches& switches, ModelShape& model) {
  read_llama_sizes(config, switches.sizes, model);
  if (is_on(config, switches.multi_query)) model.num_kv_heads = 1;
  if (is_on(config, switches.head_bias)) model.lm_head_parameters += model.vocab_size;
  if (is_on(config, switches.learned_positions))
    model.position_embedding_parameters = model.max_context_tokens * model.hidden_size;
  const std::int64_t norm = (switches.norm_weight ? model.hidden_size : 0) +
                            (is_on(config, switches.norm_bias) ? model.hidden_size : 0);
  model.final_other_parameters = norm;

  LayerDesign dense = design_of(model);
  dense.gated_ffn = switches.gated;
  dense.qkv_bias = is_on(config, switches.qkv_bias);
  dense.output_bias = is_on(config, switches.output_bias);
  dense.ffn_bias = is_on(config, switches.ffn_bias);
  const std::int64_t num_norms = switches.norms - (is_on(config, switches.parallel) ? 1 : 0) +
                                 (is_on(config, switches.outer_norms) ? 2 : 0);
  dense.norm_parameters = num_norms * norm + qk_norm_parameters(config, switches, dense);
  dense.norm_parameters += switches.activation_numbers + (switches.sinks ? model.num_heads : 0);
  dense.output_gate = dense.plain_gate = switches.output_gate;
  if (switches.inner_norms) dense.norm_parameters += model.hidden_size + model.ffn_size;
  LayerDesign sparse = dense;
  if (switches.experts.dense_width != nullptr)
    dense.ffn_size = config.size({switches.experts.dense_width}, kSizeRange, dense.ffn_size);
  const std::vector<bool> is_sparse = read_expert_layers(config, switches.experts, sparse, model);
  if (switches.experts.router_bias) sparse.norm_parameters += sparse.num_experts;
  const auto windows = read_windows(config, switches.windows, model);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    LayerDesign& design = is_sparse[i] ? sparse : dense;
    design.attention_window = windows[i];
    add_layer(model, make_layer(design));
  }
}

}  // namespace tessera::hf
