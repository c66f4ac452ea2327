// DeepSeek-V2 to V3.2: multi-head latent attention, shared experts, the first layers dense; and
// what has their layers: Kimi K2 (the classes of V3), GLM-4.7 Flash, GLM-5, Kimi Linear.
#include <algorithm>

#include "mixers.h"

namespace tessera::hf {
namespace {

constexpr SizeRange kSharedExpertsRange{0, 256};  // together no wider than a matrix may be

LayerShape make_latent_layer(const LayerDesign& design, const LatentAttention& attention) {
  LayerShape layer;
  add_latent_attention(design, attention, layer);
  add_feed_forward(design, layer);
  layer.other_parameters += design.norm_parameters;
  return layer;
}

/// What the classes that have DeepSeek's layers disagree about.
struct Latent {
  bool router_bias = false;  ///< a number per expert beside the router's matrix
  bool indexer = false;
  bool query_rank_is_optional = false;
  std::optional<std::int64_t> num_shared = 0, num_dense = {};  ///< where the keys are not written
};

// GLM-5 leaves the indexer out of layers that attend to what the one before chose.
std::vector<bool> layers_with_indexer(Config& config, std::int64_t num_layers) {
  std::vector<bool> own(static_cast<std::size_t>(num_layers), true);
  if (const auto types = config.layer_names("indexer_types", num_layers, {"full", "shared"})) {
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = (*types)[i] == "full";
    return own;
  }
  if (config.find("index_topk_pattern") != nullptr)
    config.fail("index_topk_pattern", "not understood; write indexer_types",
                ErrorCode::unsupported);
  const std::int64_t period = config.size({"index_topk_freq"}, kLayersRange, 1);
  const std::int64_t offset = config.size({"index_skip_topk_offset"}, {0, kLayersRange.high}, 2);
  for (std::int64_t i = 0; i < num_layers; ++i) {
    own[static_cast<std::size_t>(i)] = std::max<std::int64_t>(i - offset + 1, 0) % period == 0;
  }
  return own;
}

void read_latent_family(Config& config, const Latent& family, ModelShape& model) {
  LatentAttention attention = read_latent_attention(config, family.query_rank_is_optional);
  if (family.indexer) read_indexer(config, attention);
  attention.bias = config.flag("attention_bias", false);
  // Files that write a head_dim mean the rotary part by it.
  read_llama_sizes(config, {.max_context_tokens = 2048, .num_kv_heads = {}, .head_dim = 1}, model);
  model.head_dim = attention.head_dim();
  if (model.num_kv_heads != model.num_heads) {
    config.fail("num_key_value_heads", "latent attention has as many as attention heads");
  }
  const LayerDesign dense = llama_design(model);
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange);
  read_experts(config, {"n_routed_experts", "num_local_experts"}, sparse);
  sparse.shared_ffn_size =
      sparse.ffn_size * config.size({"n_shared_experts"}, kSharedExpertsRange, family.num_shared);
  const std::int64_t num_dense =
      config.size({"first_k_dense_replace"}, {0, kLayersRange.high}, family.num_dense);
  const std::int64_t step = config.size({"moe_layer_freq"}, kLayersRange, 1);
  const auto kinds = config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});
  const auto own_index = layers_with_indexer(config, model.num_layers);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_sparse = kinds ? (*kinds)[at] == "sparse" : i >= num_dense && i % step == 0;
    attention.shares_index = !own_index[at];
    LayerShape layer = make_latent_layer(is_sparse ? sparse : dense, attention);
    if (is_sparse && family.router_bias) layer.other_parameters += sparse.num_experts;
    add_layer(model, layer);
  }
}

}  // namespace

// DeepseekV2Config and DeepseekV3Config: 2048 and 4096 positions where none are written; the
// published files write all sizes, which are required here.
void read_deepseek_v2(Config& config, ModelShape& model) { read_latent_family(config, {}, model); }
void read_deepseek_v3(Config& config, ModelShape& model) {
  read_latent_family(config, {.router_bias = true}, model);
}
void read_deepseek_v32(Config& config, ModelShape& model) {
  read_latent_family(
      config, {.router_bias = true, .indexer = true, .num_shared = 1, .num_dense = 3}, model);
}
// GlmMoeDsaConfig (GLM-5) and Glm4MoeLiteConfig (GLM-4.7 Flash): the same with other defaults.
void read_glm_moe_dsa(Config& config, ModelShape& model) { read_deepseek_v32(config, model); }
void read_glm4_moe_lite(Config& config, ModelShape& model) {
  read_latent_family(config, {.router_bias = true, .num_shared = 1, .num_dense = 1}, model);
}

// MiniCPM3 and Youtu: latent attention beside dense networks.
void read_latent_dense(Config& config, ModelShape& model) {
  LatentAttention attention = read_latent_attention(config);
  attention.bias = config.flag("attention_bias", false);
  read_llama_sizes(config, {.max_context_tokens = 32768, .head_dim = 1, .tied_embeddings = true},
                   model);
  model.head_dim = attention.head_dim();
  add_layers(model, make_latent_layer(llama_design(model), attention));
}

// LongCat: two attentions and two dense networks in a layer, beside which experts stand once, of
// which zero_expert_num do nothing. Both attentions keep latents; together they are as one of
// latents twice as wide.
void read_longcat_flash(Config& config, ModelShape& model) {
  LatentAttention attention = read_latent_attention(config);
  attention.bias = config.flag("attention_bias", false);
  const std::int64_t width =
      config.size({"ffn_hidden_size", "intermediate_size"}, kSizeRange, 12288);
  read_llama_sizes(config,
                   {.max_context_tokens = 131072,
                    .head_dim = 1,
                    .ffn_size = width,
                    .num_layers = config.optional_size({"num_layers"}, kLayersRange)},
                   model);
  model.head_dim = attention.head_dim();
  LayerDesign dense = llama_design(model), sparse = dense;
  sparse.ffn_size =
      config.size({"expert_ffn_hidden_size", "moe_intermediate_size"}, kSizeRange, 2048);
  sparse.num_experts = config.size({"n_routed_experts"}, kExpertsRange, 512);
  const std::int64_t absent = config.size({"zero_expert_num"}, {0, kExpertsRange.high}, 256);
  const std::int64_t chosen = config.size({"moe_topk", "num_experts_per_tok"}, kExpertsRange, 12);
  sparse.num_active_experts =
      std::max<std::int64_t>(1, chosen * sparse.num_experts / (sparse.num_experts + absent));
  LayerShape layer;
  for (int half = 0; half < 2; ++half) {
    add_latent_attention(dense, attention, layer);
    add_feed_forward(dense, layer);
    layer.other_parameters += dense.norm_parameters;
    if (half == 0) count_next_token_layers(config, layer.parameters(), model);
  }
  add_feed_forward(sparse, layer);
  layer.other_parameters += model.hidden_size * absent;  // of the router, for those too
  layer.latent_width = 2 * attention.rank;
  layer.rope_width = 2 * attention.rope;
  model.ffn_size = sparse.ffn_size;
  add_layers(model, layer);
}

// Mistral4Config and SarvamMLAConfig: the first has experts in all layers, the second queries
// without a latent.
void read_mistral4(Config& config, ModelShape& model) {
  read_latent_family(config, {.num_shared = 1, .num_dense = 0}, model);
}
void read_sarvam_mla(Config& config, ModelShape& model) {
  read_latent_family(
      config,
      {.router_bias = true, .query_rank_is_optional = true, .num_shared = 1, .num_dense = 1},
      model);
}

namespace {

// In an object of its own, or as transformers 5 writes it. Defaults are KimiLinearConfig's.
DeltaNet read_kimi_delta(Config& config) {
  DeltaNet net;
  const auto read = [&](Config& from, const char* heads, const char* width, const char* kernel) {
    net.num_key_heads = net.num_value_heads = from.size({heads}, kHeadsRange, 32);
    net.key_dim = net.value_dim = from.size({width}, kHeadDimRange, 128);
    net.kernel = from.size({kernel}, kKernelRange, 4);
  };
  if (const Json* apart = config.find("linear_attn_config")) {
    Config inner(*apart, config.path() + ": linear_attn_config");
    read(inner, "num_heads", "head_dim", "short_conv_kernel_size");
  } else {
    read(config, "linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim");
  }
  return net;
}

// Layers that attend to all tokens: by the name of each, by their numbers from 1, or as the class
// has it, every fourth but for the first.
std::vector<bool> read_kimi_full_layers(Config& config, std::int64_t num_layers) {
  std::vector<bool> full(static_cast<std::size_t>(num_layers), false);
  if (const auto names =
          config.layer_names("layer_types", num_layers, {"full_attention", "linear_attention"})) {
    for (std::size_t i = 0; i < full.size(); ++i) full[i] = (*names)[i] == "full_attention";
    return full;
  }
  if (const Json* apart = config.find("linear_attn_config")) {
    Config inner(*apart, config.path() + ": linear_attn_config");
    const auto listed = inner.sizes("full_attn_layers", {1, num_layers});
    if (!listed) inner.fail("full_attn_layers", "missing; which layers attend to all");
    for (const std::int64_t layer : *listed) full[static_cast<std::size_t>(layer - 1)] = true;
    return full;
  }
  for (std::size_t i = 4; i < full.size(); i += 4) full[i] = true;
  return full;
}

}  // namespace

// Kimi Linear: latent attention without positions in some layers, Kimi Delta Attention in the
// others, of which linear_attn_config counts from 1.
void read_kimi_linear(Config& config, ModelShape& model) {
  LatentAttention attention = read_latent_attention(config, true);
  read_llama_sizes(config,
                   {.max_context_tokens = config.size({"model_max_length"}, kTokensRange, 1048576),
                    .head_dim = 1},
                   model);
  model.head_dim = attention.head_dim();
  LayerDesign dense = llama_design(model);
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange);
  sparse.num_experts = config.size({"num_experts", "num_local_experts"}, kExpertsRange);
  sparse.num_active_experts =
      config.size({"num_experts_per_token", "num_experts_per_tok"}, {1, sparse.num_experts});
  sparse.shared_ffn_size = sparse.ffn_size * config.size({"num_shared_experts", "n_shared_experts"},
                                                         kSharedExpertsRange, 1);
  const auto networks =
      config.layer_names("mlp_layer_types", model.num_layers, {"dense", "sparse"});
  const std::int64_t num_dense = config.size({"first_k_dense_replace"}, {0, kLayersRange.high}, 1);
  const DeltaNet net = read_kimi_delta(config);
  const std::vector<bool> full = read_kimi_full_layers(config, model.num_layers);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool is_dense =
        networks ? (*networks)[static_cast<std::size_t>(i)] == "dense" : i < num_dense;
    const LayerDesign& design = is_dense ? dense : sparse;
    LayerShape layer;
    if (full[static_cast<std::size_t>(i)]) {
      add_latent_attention(design, attention, layer);
    } else {
      add_kimi_delta(design, net, layer);
    }
    add_feed_forward(design, layer);
    layer.other_parameters += design.norm_parameters + design.num_experts;
    add_layer(model, layer);
  }
}

}  // namespace tessera::hf
