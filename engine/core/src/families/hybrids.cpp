// Families that mix states with attention: Jamba, Bamba, Falcon-H1, Granite 4, Nemotron-H, LFM2,
// MiniMax-01 and M1; and Mamba alone. Defaults are those of the config classes of transformers 5.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "mixers.h"
#include "tessera/core/units.h"

namespace tessera::hf {
namespace {

constexpr SizeRange kExpandRange{1, 64};
constexpr SizeRange kOffsetRange{0, kLayersRange.high};

bool is_at(std::int64_t layer, std::int64_t period, std::int64_t offset) {
  return layer % period == offset;
}

/// Norms around the halves of a layer, which none of them counts.
void finish_layer(const LayerDesign& design, LayerShape layer, ModelShape& model) {
  layer.other_parameters += design.norm_parameters;
  add_layer(model, layer);
}

/// A layer that attends, or has what `add_state(layer)` adds, before its feed-forward network.
template <class AddState>
void add_mixed_layer(const LayerDesign& design, bool attends, const AddState& add_state,
                     ModelShape& model) {
  LayerShape layer;
  if (attends) {
    add_attention(design, layer);
  } else {
    add_state(layer);
  }
  add_feed_forward(design, layer);
  finish_layer(design, layer, model);
}

/// Of the low-rank product that makes Mamba's time steps; "auto": a sixteenth of the hidden size.
std::int64_t time_step_rank(Config& config, const char* key, const ModelShape& model) {
  const Json* rank = config.find(key);
  return rank == nullptr || *rank == "auto" ? ceil_div(model.hidden_size, 16)
                                            : config.size({key}, kSizeRange);
}

std::vector<bool> listed_layers(Config& config, const char* key, const ModelShape& model) {
  std::vector<bool> found(static_cast<std::size_t>(model.num_layers), false);
  const auto list = config.sizes(key, {0, model.num_layers - 1});
  for (const std::int64_t layer : list.value_or(std::vector<std::int64_t>{}))
    found[static_cast<std::size_t>(layer)] = true;
  return found;
}

/// A model without attention or feed-forward networks: embeddings, mixers and a norm.
void read_mixer_sizes(Config& config, bool tied, ModelShape& model) {
  model.num_layers = config.size({"num_hidden_layers", "n_layer"}, kLayersRange);
  model.hidden_size = config.size({"hidden_size", "d_model"}, kSizeRange);
  model.vocab_size = config.size({"vocab_size"}, kVocabRange);
  model.max_context_tokens = kTokensRange.high;  // nothing of it depends on positions
  config.check_activation({"hidden_act"});
  set_embeddings(model, model.hidden_size, config.flag("tie_word_embeddings", tied));
  model.final_other_parameters = model.hidden_size;
}

void add_mixers(Config& config, ModelShape& model) {
  Mamba mamba;
  mamba.inner = config.size({"intermediate_size"}, kSizeRange,
                            model.hidden_size * config.size({"expand"}, kExpandRange, 2));
  mamba.state = config.size({"state_size"}, kHeadDimRange, 16);
  mamba.kernel = config.size({"conv_kernel"}, kKernelRange, 4);
  mamba.rank = time_step_rank(config, "time_step_rank", model);
  mamba.bias = config.flag("use_bias", false);
  mamba.conv_bias = config.flag("use_conv_bias", true);
  LayerShape layer;
  add_mamba({.hidden_size = model.hidden_size}, mamba, layer);
  layer.other_parameters += model.hidden_size;
  add_layers(model, layer);
}

/// The keys that say what each layer of Nemotron-H is: the first a text of letters, the others
/// lists of names.
struct BlockKeys {
  const char* letters;
  std::vector<const char*> names;
};
const BlockKeys kBlocks{"hybrid_override_pattern", {"layers_block_type", "layer_types"}};
const BlockKeys kNextTokenBlocks{"mtp_hybrid_override_pattern", {"mtp_layers_block_type"}};

/// One letter a layer, where any of the keys is written.
std::optional<std::string> block_letters(Config& config, const BlockKeys& keys) {
  constexpr std::string_view kKnown = "M*-E";
  std::string letters;
  if (const Json* pattern = config.find(keys.letters)) {
    if (!pattern->is_string()) config.fail(keys.letters, "a text belongs here");
    letters = pattern->get<std::string>();
    if (letters.find_first_not_of(kKnown) != std::string::npos || letters.empty()) {
      config.fail(keys.letters,
                  fmt::format("{} has letters that are not understood; known: M (Mamba 2), * "
                              "(attention), - (feed-forward network), E (experts)",
                              letters.substr(0, 40)),
                  ErrorCode::unsupported);
    }
    return letters;
  }
  for (const char* key : keys.names) {
    const Json* list = config.find(key);
    if (list == nullptr || !list->is_array()) continue;
    const auto names = *config.layer_names(
        key, static_cast<std::int64_t>(list->size()),
        {"mamba", "linear_attention", "attention", "full_attention", "mlp", "moe"});
    for (const std::string& name : names) {
      letters += name == "mlp"                                     ? '-'
                 : name == "moe"                                   ? 'E'
                 : name == "attention" || name == "full_attention" ? '*'
                                                                   : 'M';
    }
    return letters;
  }
  return {};
}

/// Experts of Nemotron-H: no gates, in a space of their own where moe_latent_size says so.
void add_latent_experts(Config& config, const LayerDesign& design, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size;
  const auto latent = config.optional_size({"moe_latent_size"}, kSizeRange);
  LayerDesign experts = design;
  experts.num_experts = config.size({"n_routed_experts"}, kExpertsRange, 8);
  experts.num_active_experts = config.size({"num_experts_per_tok"}, {1, experts.num_experts}, 2);
  experts.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange, 7688);
  if (latent) {
    layer.linears.push_back({"latent.in_proj", hidden, *latent});
    experts.hidden_size = *latent;
  }
  add_feed_forward(experts, layer);
  layer.other_parameters += experts.num_experts;  // beside the router's matrix
  if (latent) {
    layer.linears.push_back({"latent.out_proj", *latent, hidden});
    layer.other_parameters += (hidden - *latent) * experts.num_experts;  // the router sees hidden
    if (design.ffn_bias) layer.other_parameters += *latent + hidden;
  }
  const std::int64_t shared =
      config.size({"moe_shared_expert_intermediate_size"}, {0, kSizeRange.high}, 7688);
  if (shared == 0) return;
  layer.linears.push_back({"shared_expert.up_proj", hidden, shared});
  layer.linears.push_back({"shared_expert.down_proj", shared, hidden});
}

}  // namespace

void read_mamba(Config& config, ModelShape& model) {
  read_mixer_sizes(config, true, model);
  add_mixers(config, model);
}

// FalconMambaConfig: Mamba with norms that have no parameters.
void read_falcon_mamba(Config& config, ModelShape& model) { read_mamba(config, model); }

void read_mamba2(Config& config, ModelShape& model) {
  read_mixer_sizes(config, false, model);
  Mamba2 mamba;
  mamba.num_heads = config.size({"num_heads"}, kHeadsRange, 128);
  mamba.head_dim = config.size({"head_dim"}, kHeadDimRange, 64);
  mamba.num_groups = config.size({"n_groups"}, kHeadsRange, 8);
  mamba.state = config.size({"state_size"}, kHeadDimRange, 128);
  mamba.kernel = config.size({"conv_kernel"}, kKernelRange, 4);
  mamba.in_bias = mamba.out_bias = config.flag("use_bias", false);
  mamba.conv_bias = config.flag("use_conv_bias", true);
  LayerShape layer;
  add_mamba2({.hidden_size = model.hidden_size}, mamba, layer);
  layer.other_parameters += model.hidden_size;
  add_layers(model, layer);
}

void read_jamba(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 262144, .num_kv_heads = 8}, model);
  const LayerDesign dense = llama_design(model);
  LayerDesign sparse = dense;
  sparse.num_experts = config.size({"num_experts"}, kExpertsRange, 16);
  sparse.num_active_experts = config.size({"num_experts_per_tok"}, kExpertsRange, 2);
  Mamba mamba{.norms = true};
  mamba.inner = model.hidden_size * config.size({"mamba_expand"}, kExpandRange, 2);
  mamba.state = config.size({"mamba_d_state"}, kHeadDimRange, 16);
  mamba.kernel = config.size({"mamba_d_conv"}, kKernelRange, 4);
  mamba.rank = time_step_rank(config, "mamba_dt_rank", model);
  mamba.conv_bias = config.flag("mamba_conv_bias", true);
  mamba.bias = config.flag("mamba_proj_bias", false);
  const std::int64_t attention_period = config.size({"attn_layer_period"}, kLayersRange, 8);
  const std::int64_t attention_offset = config.size({"attn_layer_offset"}, kOffsetRange, 4);
  const std::int64_t expert_period = config.size({"expert_layer_period"}, kLayersRange, 2);
  const std::int64_t expert_offset = config.size({"expert_layer_offset"}, kOffsetRange, 1);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool is_sparse = sparse.num_experts > 1 && is_at(i, expert_period, expert_offset);
    const LayerDesign& design = is_sparse ? sparse : dense;
    add_mixed_layer(
        design, is_at(i, attention_period, attention_offset),
        [&](LayerShape& layer) { add_mamba(design, mamba, layer); }, model);
  }
}

void read_bamba(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 262144, .num_kv_heads = 8}, model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.ffn_bias = config.flag("mlp_bias", false);
  const Mamba2 mamba = read_mamba2(
      config, model.hidden_size * config.size({"mamba_expand"}, kExpandRange, 2), 128, 256);
  for (const bool attends : listed_layers(config, "attn_layer_indices", model)) {
    add_mixed_layer(
        design, attends, [&](LayerShape& layer) { add_mamba2(design, mamba, layer); }, model);
  }
}

// Every layer has both side by side.
void read_falcon_h1(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 8192, .num_kv_heads = 8}, model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.ffn_bias = config.flag("mlp_bias", false);
  std::int64_t inner = config.size({"mamba_d_ssm"}, kSizeRange, 1024);
  if (config.written("mamba_d_ssm") && config.find("mamba_d_ssm") == nullptr)
    inner = model.hidden_size * config.size({"mamba_expand"}, kExpandRange, 2);
  Mamba2 mamba = read_mamba2(config, inner, 128, 256);
  mamba.out_bias = config.flag("projectors_bias", false);
  mamba.norm = config.flag("mamba_rms_norm", false);
  LayerShape layer;
  add_attention(design, layer);
  add_mamba2(design, mamba, layer);
  add_feed_forward(design, layer);
  layer.other_parameters += design.norm_parameters;
  add_layers(model, layer);
}

// Beside the experts, or alone where num_local_experts is 0, a network of shared_intermediate_size
// that every token visits.
void read_granitemoehybrid(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 2048, .ffn_size = 11008}, model);
  LayerDesign design = llama_design(model);
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  const std::int64_t shared = config.size({"shared_intermediate_size"}, kSizeRange, 1024);
  design.num_experts = config.size({"num_local_experts"}, {0, kExpertsRange.high}, 8);
  if (design.num_experts == 0) {
    design.ffn_size = model.ffn_size = shared;
  } else {
    design.num_active_experts = config.size({"num_experts_per_tok"}, {1, design.num_experts}, 2);
    design.shared_ffn_size = shared;
  }
  const auto names =
      config.layer_names("layer_types", model.num_layers,
                         {"attention", "full_attention", "mamba", "linear_attention"});
  const Mamba2 mamba = read_mamba2(
      config, model.hidden_size * config.size({"mamba_expand"}, kExpandRange, 2), 128, 256);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool attends = names && (*names)[static_cast<std::size_t>(i)].ends_with("attention") &&
                         (*names)[static_cast<std::size_t>(i)] != "linear_attention";
    add_mixed_layer(
        design, attends, [&](LayerShape& layer) { add_mamba2(design, mamba, layer); }, model);
  }
}

// Each block is one thing: Mamba 2, attention, a feed-forward network or experts.
void read_nemotron_h(Config& config, ModelShape& model) {
  const auto letters = block_letters(config, kBlocks);
  if (!letters) config.fail(kBlocks.letters, "missing; what each layer is");
  const std::string& blocks = *letters;
  const auto head_dim = config.optional_size({"head_dim", "attention_head_dim"}, kHeadDimRange);
  read_llama_sizes(config,
                   {.max_context_tokens = 4096,
                    .num_kv_heads = 8,
                    .head_dim = head_dim.value_or(128),
                    .ffn_size = 21504,
                    .num_layers = static_cast<std::int64_t>(blocks.size())},
                   model);
  if (blocks.size() != static_cast<std::size_t>(model.num_layers)) {
    config.fail("num_hidden_layers",
                fmt::format("{} where {} blocks are listed", model.num_layers, blocks.size()));
  }
  config.check_activation({"mlp_hidden_act", "mamba_hidden_act"});
  LayerDesign design = design_of(model);
  design.norm_parameters = model.hidden_size;
  design.qkv_bias = design.output_bias = config.flag("attention_bias", false);
  design.ffn_bias = config.flag("mlp_bias", false);
  Mamba2 mamba;
  mamba.num_heads = config.size({"mamba_num_heads"}, kHeadsRange, 128);
  mamba.head_dim = config.size({"mamba_head_dim"}, kHeadDimRange, 64);
  mamba.num_groups = config.size({"n_groups", "mamba_n_groups"}, kHeadsRange, 8);
  mamba.state = config.size({"ssm_state_size"}, kHeadDimRange, 128);
  mamba.kernel = config.size({"conv_kernel", "mamba_d_conv"}, kKernelRange, 4);
  mamba.conv_bias = config.flag("use_conv_bias", true);
  mamba.in_bias = mamba.out_bias = config.flag("use_bias", false);
  const auto layer_of = [&](char block) {
    LayerShape layer;
    if (block == 'M') add_mamba2(design, mamba, layer);
    if (block == '*') add_attention(design, layer);
    if (block == '-') add_feed_forward(design, layer);
    if (block == 'E') add_latent_experts(config, design, layer);
    return layer;
  };
  for (const char block : blocks) finish_layer(design, layer_of(block), model);
  if (next_token_layers(config) == 0) return;
  std::int64_t next_token = 0;
  for (const char block : block_letters(config, kNextTokenBlocks).value_or("*E"))
    next_token += layer_of(block).parameters() + design.norm_parameters;
  count_next_token_layers(config, next_token, model);
}

namespace {

// Its files write the width of a network that has no gate, of which two thirds are taken.
std::int64_t lfm2_ffn_size(Config& config, std::int64_t width) {
  if (!config.flag("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  const double multiplier = config.number("block_ffn_dim_multiplier", 0.01, 100, 1);
  const std::int64_t multiple = config.size({"block_multiple_of"}, kSizeRange, 256);
  return ceil_div(static_cast<std::int64_t>(multiplier * static_cast<double>(width)), multiple) *
         multiple;
}

// `sparse`: of the layers after the first num_dense.
void read_lfm2_layers(Config& config, const LayerDesign& dense, const LayerDesign& sparse,
                      std::int64_t num_dense, ModelShape& model) {
  const std::int64_t kernel = config.size({"conv_L_cache"}, kKernelRange, 3);
  const bool bias = config.flag("conv_bias", false);
  const auto names =
      config.layer_names("layer_types", model.num_layers, {"full_attention", "conv"});
  const bool listed = config.find("full_attn_idxs") != nullptr;
  const std::vector<bool> full = listed_layers(config, "full_attn_idxs", model);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const LayerDesign& design = i < num_dense ? dense : sparse;
    add_mixed_layer(
        design, names ? (*names)[at] == "full_attention" : !listed || full[at],
        [&](LayerShape& layer) { add_short_convolution(design, kernel, bias, layer); }, model);
  }
}

LlamaDefaults lfm2_sizes(Config& config) {
  return {.max_context_tokens = 128000,
          .num_kv_heads = 8,
          .tied_embeddings = config.flag("tie_embedding", true),
          .ffn_size = config.optional_size({"block_ff_dim"}, kSizeRange)};
}

}  // namespace

void read_lfm2(Config& config, ModelShape& model) {
  read_llama_sizes(config, lfm2_sizes(config), model);
  LayerDesign design = llama_design(model);
  design.qk_norm = true;
  const std::int64_t width = config.size({"block_ff_dim"}, kSizeRange, model.ffn_size);
  design.ffn_size = model.ffn_size = lfm2_ffn_size(config, width);
  read_lfm2_layers(config, design, design, model.num_layers, model);
}

void read_lfm2_moe(Config& config, ModelShape& model) {
  read_llama_sizes(config, lfm2_sizes(config), model);
  LayerDesign dense = llama_design(model);
  dense.qk_norm = true;
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange, 1792);
  sparse.num_experts = config.size({"num_experts"}, kExpertsRange, 32);
  sparse.num_active_experts = config.size({"num_experts_per_tok"}, {1, sparse.num_experts}, 4);
  if (config.flag("use_expert_bias", true)) sparse.norm_parameters += sparse.num_experts;
  const std::int64_t num_dense = config.size({"num_dense_layers"}, kOffsetRange, 2);
  read_lfm2_layers(config, dense, sparse, num_dense, model);
}

// MiniMax-Text-01 and M1 list their layers as 0 (linear) and 1 in attn_type_list; without a list,
// every second one is linear.
void read_minimax(Config& config, ModelShape& model) {
  read_llama_sizes(config, {.max_context_tokens = 131072, .num_kv_heads = 8}, model);
  LayerDesign design = llama_design(model);
  read_experts(config, {"num_local_experts"}, design);
  design.shared_ffn_size = config.size({"shared_intermediate_size"}, {0, kSizeRange.high}, 0);
  const auto names =
      config.layer_names("layer_types", model.num_layers, {"full_attention", "linear_attention"});
  const auto types = config.sizes("attn_type_list", {0, 1});
  if (types && types->size() != static_cast<std::size_t>(model.num_layers)) {
    config.fail("attn_type_list",
                fmt::format("{} entries for {} layers", types->size(), model.num_layers));
  }
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool linear = names   ? (*names)[at] == "linear_attention"
                        : types ? (*types)[at] == 0
                                : i % 2 == 1;
    add_mixed_layer(
        design, !linear, [&](LayerShape& layer) { add_lightning_attention(design, layer); }, model);
  }
}

}  // namespace tessera::hf
