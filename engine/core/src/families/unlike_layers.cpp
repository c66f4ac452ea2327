// Families of attention layers that are not alike: MiMo-V2 Flash, whose layers with a window have
// other heads, and Nemotron Super and Ultra, whose blocks a search has made.
#include <fmt/format.h>

#include <algorithm>

#include "family.h"
#include "tessera/core/units.h"

namespace tessera::hf {
namespace {

/// One entry of block_configs: a half of a layer.
struct Half {
  bool absent = false, linear = false;
};

Half read_half(Config& half) {
  const Half read{half.flag("no_op", false), half.flag("replace_with_linear", false)};
  if (half.find("sparsify") != nullptr)
    half.fail("sparsify", "only null is understood", ErrorCode::unsupported);
  return read;
}

void add_linear(const char* name, std::int64_t hidden, LayerShape& layer) {
  layer.linears.push_back({name, hidden, hidden});
}

// The width that its code makes of ffn_mult: two thirds, up to a multiple of 256.
std::int64_t width_of(double multiplier, std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const auto width = static_cast<std::int64_t>(2 * multiplier * static_cast<double>(hidden) / 3);
  return ceil_div(width, kMultiple) * kMultiple;
}

}  // namespace

// DeciLM's code, with block_configs: of each layer the attention, with so many query heads for a
// key-value head, a matrix in its place, or nothing, and likewise the feed-forward network.
void read_nemotron_nas(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 131072, .ffn_size = 1}, model);
  const Json* blocks = config.find("block_configs");
  if (blocks == nullptr || !blocks->is_array() ||
      blocks->size() != static_cast<std::size_t>(model.num_layers)) {
    config.fail("block_configs",
                fmt::format("an array of {} blocks belongs here, one per layer", model.num_layers));
  }
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  model.num_kv_heads = 1;
  model.ffn_size = 0;
  for (std::size_t i = 0; i < blocks->size(); ++i) {
    const std::string where = fmt::format("{}: block_configs[{}]", config.path(), i);
    Config block((*blocks)[i], where);
    const Json *attention = block.find("attention"), *ffn = block.find("ffn");
    if (attention == nullptr || ffn == nullptr) block.fail("attention", "and ffn belong here");
    Config first(*attention, where + ".attention"), second(*ffn, where + ".ffn");
    const Half attends = read_half(first), feeds = read_half(second);
    LayerShape layer;
    if (attends.linear) {
      add_linear("attention.linear_proj", model.hidden_size, layer);
    } else if (!attends.absent) {
      const std::int64_t group = first.size({"n_heads_in_group"}, {1, model.num_heads});
      if (model.num_heads % group != 0) {
        first.fail("n_heads_in_group", fmt::format("{} heads do not split evenly over groups of {}",
                                                   model.num_heads, group));
      }
      design.num_kv_heads = model.num_heads / group;
      model.num_kv_heads = std::max(model.num_kv_heads, design.num_kv_heads);
      add_attention(design, layer);
    }
    if (feeds.linear) {
      add_linear("ffn.linear_proj", model.hidden_size, layer);
    } else if (!feeds.absent) {
      design.ffn_size = second.find("intermediate_size") != nullptr
                            ? second.size({"intermediate_size"}, kSizeRange)
                            : width_of(second.number("ffn_mult", 1e-3, 1e3, 1), model.hidden_size);
      model.ffn_size = std::max(model.ffn_size, design.ffn_size);
      add_feed_forward(design, layer);
    }
    if (layer.linears.empty()) {
      block.fail("attention", "and ffn are both absent: a layer that does nothing",
                 ErrorCode::unsupported);
    }
    layer.other_parameters +=
        (attends.absent ? 0 : model.hidden_size) + (feeds.absent ? 0 : model.hidden_size);
    add_layer(model, layer);
  }
}

// HunYuanMoEV1Config (Hunyuan-A13B): a number for all layers, or a list of one per layer, of
// experts that a token visits, of their width, and of those that every token visits.
void read_hunyuan_v1_moe(Config& config, ModelShape& model) {
  constexpr SizeRange kSharedRange{0, 256};
  read_llama_sizes(config, {.max_context_tokens = 2048}, model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.qk_norm = config.flag("use_qk_norm", true);
  const std::int64_t num_layers = model.num_layers, width = model.ffn_size;
  design.num_experts = config.size({"num_experts"}, kExpertsRange, 1);
  const auto active =
      config.layer_sizes({"moe_topk", "num_experts_per_tok"}, num_layers, kExpertsRange, 1);
  const auto widths = config.layer_sizes({"moe_intermediate_size"}, num_layers, kSizeRange, width);
  const auto shared = config.layer_sizes({"num_shared_expert"}, num_layers, kSharedRange, 1);
  for (std::size_t i = 0; i < active.size(); ++i) {
    design.num_active_experts = active[i];
    design.ffn_size = model.ffn_size = widths[i];
    design.shared_ffn_size = shared[i] * width;
    add_layer(model, make_layer(design));
  }
}

// MiMoV2FlashConfig defaults: 64 heads of 192, values of 128, 4 key-value heads in layers that see
// everything (the first and every sixth), twice as many and sinks in the others, which see 128
// tokens; the first feed-forward network dense. The published files say the same by
// hybrid_layer_pattern, moe_layer_freq (lists of 0 and 1) and keys for layers with a window.
void read_mimo_v2_flash(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 4,
                    .head_dim = 192,
                    .num_heads = 64,
                    .vocab_size = 152576,
                    .ffn_size = 16384},
                   model);
  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  const auto one_each = [&](const char* key) {
    const Json* list = config.find(key);
    const auto found = list != nullptr && list->is_array()
                           ? config.sizes(key, {0, 1})
                           : std::optional<std::vector<std::int64_t>>();
    if (found && found->size() != num_layers)
      config.fail(key, fmt::format("{} entries for {} layers", found->size(), num_layers));
    return found;
  };
  const auto sliding = config.sliding_layers(model.num_layers);
  const auto pattern = one_each("hybrid_layer_pattern"), sparse_list = one_each("moe_layer_freq");
  const auto kinds = config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});

  LayerDesign full = llama_design(model);
  full.value_dim = config.size({"v_head_dim"}, kHeadDimRange, 128);
  full.qkv_bias = config.flag("attention_bias", false);
  LayerDesign windowed = full;
  windowed.num_heads = config.size({"swa_num_attention_heads"}, kHeadsRange, full.num_heads);
  windowed.num_kv_heads =
      config.size({"swa_num_key_value_heads"}, {1, windowed.num_heads}, 2 * full.num_kv_heads);
  windowed.head_dim = config.size({"swa_head_dim"}, kHeadDimRange, full.head_dim);
  windowed.value_dim = config.size({"swa_v_head_dim"}, kHeadDimRange, full.value_dim);
  windowed.attention_window =
      config.size({"sliding_window", "sliding_window_size"}, kTokensRange, 128);
  if (config.flag("add_swa_attention_sink_bias", true))
    windowed.norm_parameters += windowed.num_heads;
  if (config.flag("add_full_attention_sink_bias", false)) full.norm_parameters += full.num_heads;

  LayerDesign experts = full;
  read_experts(config, {"n_routed_experts"}, experts);
  const std::int64_t width = config.size({"moe_intermediate_size"}, kSizeRange, 2048);
  for (std::size_t i = 0; i < num_layers; ++i) {
    const bool slides = sliding   ? (*sliding)[i]
                        : pattern ? (*pattern)[i] == 1
                                  : i != 0 && (i + 1) % 6 != 0;
    const bool sparse = kinds         ? (*kinds)[i] == "sparse"
                        : sparse_list ? (*sparse_list)[i] == 1
                                      : i != 0;
    LayerDesign design = slides ? windowed : full;
    if (sparse) {
      design.ffn_size = width;
      design.num_experts = experts.num_experts;
      design.num_active_experts = experts.num_active_experts;
    }
    add_layer(model, make_layer(design));
  }
  model.ffn_size = width;
}

}  // namespace tessera::hf
