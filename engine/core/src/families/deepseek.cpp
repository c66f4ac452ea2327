// DeepSeek-V2 and V3: multi-head latent attention, shared experts, the first layers dense. Kimi K2
// has the classes of V3.
#include "family.h"

namespace tessera::hf {
namespace {

constexpr SizeRange kSharedExpertsRange{0, 256};  // together no wider than a matrix may be

// DeepSeek-V2, section 2.1 and appendix C: queries of a part without positions and a rotary part,
// from a latent of their own where q_lora_rank is not null; keys and values from another latent.
struct LatentAttention {
  std::optional<std::int64_t> query_rank;
  std::int64_t rank = 0, plain = 0, rope = 0, value = 0;

  std::int64_t head_dim() const { return plain + rope; }
};

LatentAttention read_attention(Config& config) {
  LatentAttention attention;
  attention.query_rank = config.optional_size({"q_lora_rank"}, kSizeRange);
  if (!config.written("q_lora_rank")) {
    config.fail("q_lora_rank", "missing; an integer, or null for queries without a latent");
  }
  const SizeRange half{kHeadDimRange.low, kHeadDimRange.high / 2};
  attention.rank = config.size({"kv_lora_rank"}, kHeadDimRange);
  attention.plain = config.size({"qk_nope_head_dim"}, half);
  attention.rope = config.size({"qk_rope_head_dim"}, half);
  attention.value = config.size({"v_head_dim"}, half);
  return attention;
}

LayerShape make_latent_layer(const LayerDesign& design, const LatentAttention& attention) {
  const std::int64_t hidden = design.hidden_size, heads = design.num_heads;
  const std::int64_t query = heads * attention.head_dim();
  LayerShape layer;
  layer.num_heads = layer.num_kv_heads = heads;
  layer.head_dim = attention.head_dim();
  layer.latent_width = attention.rank;
  layer.rope_width = attention.rope;
  if (attention.query_rank) {
    layer.linears = {{"q_a_proj", hidden, *attention.query_rank},
                     {"q_b_proj", *attention.query_rank, query}};
  } else {
    layer.linears = {{"q_proj", hidden, query}};
  }
  layer.linears.push_back({"kv_a_proj", hidden, attention.rank + attention.rope});
  layer.linears.push_back(
      {"kv_b_proj", attention.rank, heads * (attention.plain + attention.value)});
  layer.linears.push_back({"o_proj", heads * attention.value, hidden});
  add_feed_forward(design, layer);
  layer.other_parameters = design.norm_parameters + attention.query_rank.value_or(0) +
                           attention.rank + hidden * design.num_experts;
  return layer;
}

// `router_bias`: one number per expert beside the router's matrix.
void read_deepseek(Config& config, bool router_bias, ModelShape& model) {
  const LatentAttention attention = read_attention(config);
  // Files that write a head_dim mean the rotary part by it.
  read_llama_sizes(config, {.max_context_tokens = 2048, .num_kv_heads = {}, .head_dim = 1}, model);
  model.head_dim = attention.head_dim();
  if (config.flag("attention_bias", false)) {
    config.fail("attention_bias", "only false is understood", ErrorCode::unsupported);
  }
  if (model.num_kv_heads != model.num_heads) {
    config.fail("num_key_value_heads", "latent attention has as many as attention heads");
  }
  const LayerDesign dense = llama_design(model);
  LayerDesign sparse = dense;
  sparse.ffn_size = model.ffn_size = config.size({"moe_intermediate_size"}, kSizeRange);
  read_experts(config, {"n_routed_experts"}, sparse);
  sparse.shared_ffn_size =
      sparse.ffn_size * config.size({"n_shared_experts"}, kSharedExpertsRange, 0);
  const std::int64_t num_dense = config.size({"first_k_dense_replace"}, {0, kLayersRange.high});
  const std::int64_t step = config.size({"moe_layer_freq"}, kLayersRange, 1);

  const LayerShape dense_layer = make_latent_layer(dense, attention);
  LayerShape sparse_layer = make_latent_layer(sparse, attention);
  if (router_bias) sparse_layer.other_parameters += sparse.num_experts;
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const bool is_sparse = i >= num_dense && i % step == 0;
    add_layer(model, is_sparse ? sparse_layer : dense_layer);
  }
}

}  // namespace

// DeepseekV2Config and DeepseekV3Config: 2048 and 4096 positions where none are written; the
// published files write all sizes, which are required here.
void read_deepseek_v2(Config& config, ModelShape& model) { read_deepseek(config, false, model); }
void read_deepseek_v3(Config& config, ModelShape& model) { read_deepseek(config, true, model); }

}  // namespace tessera::hf
