// Families of attention layers that are not alike: MiMo-V2 Flash, Laguna and Step 3.5, whose layers
// with a window have other heads, MiniMax-M3, of whose layers some choose tokens, Hunyuan, and
// Nemotron Super and Ultra, whose blocks a search has made.
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

// A list of 0 and 1, one per layer; 1 alone is all of them, and nothing is nothing.
std::optional<std::vector<std::int64_t>> ones_of_layers(Config& config, const char* key,
                                                        std::size_t num_layers) {
  const Json* list = config.find(key);
  if (list != nullptr && *list == 1) return std::vector<std::int64_t>(num_layers, 1);
  const auto found = config.sizes(key, {0, 1});
  if (found && found->size() != num_layers)
    config.fail(key, fmt::format("{} entries for {} layers", found->size(), num_layers));
  return found;
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
  const auto sliding = config.sliding_layers(model.num_layers);
  const auto pattern = ones_of_layers(config, "hybrid_layer_pattern", num_layers);
  const auto sparse_list = ones_of_layers(config, "moe_layer_freq", num_layers);
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

namespace {

/// With a number beside each expert in the router, by which it is chosen.
LayerShape make_sparse_layer(const LayerDesign& design) {
  LayerShape layer = make_layer(design);
  layer.other_parameters += design.num_experts;
  return layer;
}

// Of one layer, as check_kv_heads is of a model; `key` says how many query heads it has.
void check_heads(Config& config, const char* key, const LayerDesign& design) {
  if (design.num_heads % design.num_kv_heads == 0) return;
  config.fail(key, fmt::format("{} heads do not split evenly over {} key-value heads",
                               design.num_heads, design.num_kv_heads));
}

// One name per layer and for each next-token layer behind them: of the same list, of one of their
// own, or `usual`.
std::optional<std::vector<std::string>> names_of_layers(Config& config, const char* key,
                                                        const char* next_key,
                                                        std::int64_t num_layers, Names known,
                                                        const char* usual) {
  const Json* list = config.find(key);
  const std::int64_t num_next = next_token_layers(config), all = num_layers + num_next;
  const bool has_all = list != nullptr && list->is_array() && std::ssize(*list) == all;
  auto names = config.layer_names(key, has_all ? all : num_layers, known);
  if (!names || has_all) return names;
  if (const auto next = config.layer_names(next_key, num_next, known))
    names->insert(names->end(), next->begin(), next->end());
  names->resize(static_cast<std::size_t>(all), usual);
  return names;
}

// Step's layers with experts, next-token layers behind them: by name, "3,4,5,...", a list of such
// numbers, or all but the first three.
std::vector<bool> read_step_experts(Config& config, std::int64_t num_layers) {
  const std::int64_t all = num_layers + next_token_layers(config);
  std::vector<bool> sparse(static_cast<std::size_t>(all), false);
  if (const auto names = names_of_layers(config, "mlp_layer_types", "mtp_mlp_layer_types",
                                         num_layers, {"dense", "sparse"}, "dense")) {
    for (std::size_t i = 0; i < sparse.size(); ++i) sparse[i] = (*names)[i] == "sparse";
    return sparse;
  }
  constexpr std::int64_t kNumDense = 3;
  const char* key = "moe_layers_enum";
  const Json* written = config.find(key);
  if (written == nullptr) {
    for (std::int64_t i = kNumDense; i < num_layers; ++i)
      sparse[static_cast<std::size_t>(i)] = true;
    return sparse;
  }
  Json list = *written;
  if (list.is_string()) {
    list = Json::parse("[" + written->get<std::string>() + "]", nullptr, false);
    if (list.is_discarded()) config.fail(key, "whole numbers with commas between them belong here");
  }
  for (const double index :
       json_numbers(list, config.path() + ": " + key, 0, static_cast<double>(all - 1)))
    sparse[static_cast<std::size_t>(index)] = true;
  return sparse;
}

}  // namespace

// LagunaConfig defaults: 48 heads, 8 key-value heads of 128, a window of 512 tokens where
// layer_types says so, heads by layer, a gate for each head's outputs (or each number of them), the
// first network dense, 256 experts beside one that every token visits.
void read_laguna(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .num_kv_heads = 8,
                    .head_dim = 128,
                    .num_heads = 48,
                    .ffn_size = 8192},
                   model);
  LayerDesign dense = llama_design(model);
  dense.qk_norm = true;
  dense.qkv_bias = dense.output_bias = config.flag("attention_bias", false);
  const Json* gating = config.find("gating");
  dense.output_gate = dense.plain_gate = gating != nullptr && *gating == "per-element";
  dense.head_gate = !dense.output_gate;
  if (gating != nullptr && dense.head_gate && *gating != true && *gating != "per-head")
    config.fail("gating", "true, \"per-head\" or \"per-element\" belongs here");
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange, 512);
  sparse.num_experts = config.size({"num_experts", "num_local_experts"}, kExpertsRange, 256);
  sparse.num_active_experts = config.size({"num_experts_per_tok"}, {1, sparse.num_experts}, 8);
  sparse.shared_ffn_size = config.size({"shared_expert_intermediate_size"}, kSizeRange, 512);
  const auto heads = config.layer_sizes({"num_attention_heads_per_layer"}, model.num_layers,
                                        {model.num_kv_heads, kHeadsRange.high}, model.num_heads);
  const auto sliding = config.sliding_layers(model.num_layers);
  const std::int64_t window = config.size({"sliding_window"}, kTokensRange, 512);
  const auto kinds = config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const bool is_sparse = kinds ? (*kinds)[i] == "sparse" : i > 0;
    LayerDesign design = is_sparse ? sparse : dense;
    design.num_heads = heads[i];
    check_heads(config, "num_attention_heads_per_layer", design);
    if (sliding && (*sliding)[i]) design.attention_window = window;
    add_layer(model, is_sparse ? make_sparse_layer(design) : make_layer(design));
  }
}

// Step 3.5 and 3.7 (Step3p7TextConfig; the published files have older keys): 64 heads, 8 key-value
// heads of 128, a gate for each head's outputs, layers with a window of other heads, the first
// three networks dense, 288 experts beside one that every token visits.
void read_step3p5(Config& config, ModelShape& model) {
  const std::int64_t groups = config.size({"num_attention_groups"}, kHeadsRange, 8);
  read_llama_sizes(config,
                   {.max_context_tokens = 128000,
                    .num_kv_heads = groups,
                    .head_dim = 128,
                    .num_heads = 64,
                    .vocab_size = 128815,
                    .ffn_size = 11264},
                   model);
  LayerDesign full = llama_design(model);
  full.qk_norm = true;
  full.head_gate = config.flag("use_head_wise_attn_gate", true);
  full.qkv_bias = full.output_bias = config.flag("attention_bias", false);
  full.ffn_bias = config.flag("mlp_bias", false);
  LayerDesign windowed = full;
  windowed.attention_window = config.optional_size({"sliding_window"}, kTokensRange);
  if (const Json* other = config.find("attention_other_setting")) {
    Config inner(*other, config.path() + ": attention_other_setting");
    windowed.num_heads = inner.size({"num_attention_heads"}, kHeadsRange, full.num_heads);
    windowed.num_kv_heads =
        inner.size({"num_attention_groups"}, {1, windowed.num_heads}, full.num_kv_heads);
    windowed.head_dim = inner.size({"head_dim"}, kHeadDimRange, full.head_dim);
  }
  windowed.num_heads =
      config.size({"num_sliding_attention_heads"}, kHeadsRange, windowed.num_heads);
  check_heads(config, "num_sliding_attention_heads", windowed);
  const std::int64_t width = config.size({"moe_intermediate_size"}, kSizeRange, 1280);
  const std::int64_t num_experts =
      config.size({"n_routed_experts", "moe_num_experts", "num_local_experts"}, kExpertsRange, 288);
  const std::int64_t active =
      config.size({"num_experts_per_tok", "moe_top_k"}, {1, num_experts}, 8);
  const std::int64_t shared =
      config.size({"share_expert_dim", "share_expert_dims"}, kSizeRange, 1280);
  const auto kinds = names_of_layers(config, "layer_types", "mtp_layer_types", model.num_layers,
                                     {"full_attention", "sliding_attention"}, "full_attention");
  const std::vector<bool> has_experts = read_step_experts(config, model.num_layers);
  for (std::size_t i = 0; i < has_experts.size(); ++i) {
    LayerDesign design = kinds && (*kinds)[i] == "sliding_attention" ? windowed : full;
    if (has_experts[i]) {
      design.ffn_size = width;
      design.num_experts = num_experts;
      design.num_active_experts = active;
      design.shared_ffn_size = shared;
      if (design.ffn_bias) design.norm_parameters += 2 * shared + model.hidden_size;
      design.ffn_bias = false;  // experts have none
    }
    const LayerShape layer = has_experts[i] ? make_sparse_layer(design) : make_layer(design);
    const auto at = static_cast<std::int64_t>(i);
    if (at < model.num_layers) add_layer(model, layer);
    if (at == model.num_layers) count_next_token_layers(config, layer.parameters(), model);
  }
  model.ffn_size = width;
}

// MiniMaxM3VLTextConfig defaults: 64 heads, 4 key-value heads of 128, 128 experts beside one that
// every token visits. Where layer_types says so (or sparse_attention_freq in the published files)
// an indexer, whose keys all heads share, chooses 16 blocks of 128 tokens.
void read_minimax_m3(Config& config, ModelShape& model) {
  read_llama_sizes(config,
                   {.max_context_tokens = 524288,
                    .num_kv_heads = 4,
                    .head_dim = 128,
                    .num_heads = 64,
                    .vocab_size = 200064,
                    .ffn_size = 3072,
                    .gated_activation = "swigluoai"},
                   model);
  LayerDesign sparse = llama_design(model);
  sparse.qk_norm = true;
  LayerDesign dense = sparse;
  dense.ffn_size = config.size({"dense_intermediate_size"}, kSizeRange, 12288);
  sparse.num_experts = config.size({"num_local_experts", "num_experts"}, kExpertsRange, 128);
  sparse.num_active_experts = config.size({"num_experts_per_tok"}, {1, sparse.num_experts}, 4);
  sparse.shared_ffn_size = config.size({"shared_intermediate_size"}, kSizeRange, 3072);

  const Json older = config.find("sparse_attention_config") == nullptr
                         ? Json::object()
                         : *config.find("sparse_attention_config");
  Config chooser(older, config.path() + ": sparse_attention_config");
  const auto size = [&](const char* key, const char* old, SizeRange range, std::int64_t usual) {
    return config.size({key}, range, chooser.size({old}, range, usual));
  };
  const std::int64_t heads = size("index_n_heads", "sparse_num_index_heads", kHeadsRange, 4);
  const std::int64_t key = size("index_head_dim", "sparse_index_dim", kHeadDimRange, 128);
  const std::int64_t block = size("index_block_size", "sparse_block_size", {1, 1 << 14}, 128);
  const std::int64_t blocks = size("index_topk_blocks", "sparse_topk_blocks", {1, 1 << 14}, 16);

  const auto num_layers = static_cast<std::size_t>(model.num_layers);
  const auto chooses = ones_of_layers(chooser, "sparse_attention_freq", num_layers);
  const auto has_experts = ones_of_layers(config, "moe_layer_freq", num_layers);
  const auto attentions =
      config.layer_names("layer_types", model.num_layers, {"full_attention", "minimax_m3_sparse"});
  const auto kinds = config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});
  for (std::size_t i = 0; i < num_layers; ++i) {
    const bool is_sparse = kinds         ? (*kinds)[i] == "sparse"
                           : has_experts ? (*has_experts)[i] == 1
                                         : true;
    const bool indexed =
        attentions ? (*attentions)[i] == "minimax_m3_sparse" : chooses && (*chooses)[i] == 1;
    LayerShape layer = is_sparse ? make_sparse_layer(sparse) : make_layer(dense);
    if (indexed) {
      layer.index_width = key;
      layer.index_tokens = blocks * block;
      layer.linears.push_back({"indexer.q_proj", model.hidden_size, heads * key});
      layer.linears.push_back({"indexer.k_proj", model.hidden_size, key});
      layer.other_parameters += 2 * key;  // norms of both
    }
    add_layer(model, layer);
  }
}

}  // namespace tessera::hf
