// DeepSeek-V4, as transformers 5.24 (modeling_deepseek_v4.py) and llama.cpp (src/models/
// deepseek4.cpp) build it: one head of keys that are its values too, and a window in every layer;
// most layers see what lies before it through entries that stand for several tokens each. In sparse
// ones an indexer chooses among entries, in heavy ones an entry stands for many more tokens.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "mixers.h"

namespace tessera::hf {
namespace {

constexpr const char* kSliding = "sliding_attention";
constexpr const char* kSparse = "compressed_sparse_attention";
constexpr const char* kHeavy = "heavily_compressed_attention";

struct CompressedAttention {
  std::int64_t query_rank = 0, output_groups = 0, output_rank = 0, window = 0;
  std::int64_t rope = 0;  ///< part of a head that turns, of its values too
  std::int64_t sparse_tokens = 0, heavy_tokens = 0;  ///< that an entry stands for
  std::int64_t index_heads = 0, index_width = 0, index_entries = 0;
};

CompressedAttention read_attention(Config& config) {
  CompressedAttention attention;
  attention.query_rank = config.size({"q_lora_rank"}, kSizeRange, 1024);
  attention.output_groups = config.size({"o_groups"}, kHeadsRange, 8);
  attention.output_rank = config.size({"o_lora_rank"}, kHeadDimRange, 1024);
  attention.window = config.size({"sliding_window"}, kTokensRange, 128);
  attention.rope = config.size({"qk_rope_head_dim"}, kHeadDimRange, 64);
  attention.index_heads = config.size({"index_n_heads"}, kHeadsRange, 64);
  attention.index_width = config.size({"index_head_dim"}, kHeadDimRange, 128);
  attention.index_entries = config.size({"index_topk"}, kTokensRange, 512);
  attention.sparse_tokens = config.size({"compress_rate_csa"}, kTokensRange, 4);
  attention.heavy_tokens = config.size({"compress_rate_hca"}, kTokensRange, 128);
  if (const Json* rates = config.find("compress_rates")) {
    Config inner(*rates, config.path() + ": compress_rates");
    attention.sparse_tokens = inner.size({kSparse}, kTokensRange, attention.sparse_tokens);
    attention.heavy_tokens = inner.size({kHeavy}, kTokensRange, attention.heavy_tokens);
  }
  return attention;
}

// By names; by the tokens of an entry, which the published files list, those of next-token layers
// behind the others; or as the class has it: two heavy layers, then heavy and sparse in turns.
std::vector<std::string> read_kinds(Config& config, std::int64_t num_layers) {
  if (const auto names = config.layer_names("layer_types", num_layers, {kSliding, kSparse, kHeavy}))
    return *names;
  std::vector<std::string> kinds;
  const auto ratios = config.sizes("compress_ratios", {0, kTokensRange.high});
  if (ratios && std::ssize(*ratios) < num_layers) {
    config.fail("compress_ratios",
                fmt::format("{} numbers for {} layers", ratios->size(), num_layers));
  }
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if (!ratios) {
      kinds.emplace_back(i < 2 || i % 2 == 0 ? kHeavy : kSparse);
      continue;
    }
    const std::int64_t ratio = (*ratios)[static_cast<std::size_t>(i)];
    if (ratio > 1 && ratio != 4 && ratio != 128) {
      config.fail("compress_ratios",
                  fmt::format("{} is not understood; known: 0, 1, 4, 128", ratio),
                  ErrorCode::unsupported);
    }
    kinds.emplace_back(ratio < 4 ? kSliding : ratio == 4 ? kSparse : kHeavy);
  }
  return kinds;
}

// What makes an entry of `width`: two matrices, places of its tokens, and a norm. In sparse layers
// an entry overlaps the next, so both have two halves.
void add_entries(const std::string& part, std::int64_t hidden, std::int64_t width,
                 std::int64_t tokens, std::int64_t halves, LayerShape& layer) {
  for (const char* matrix : {"wkv", "wgate"})
    layer.linears.push_back({part + matrix, hidden, halves * width});
  layer.other_parameters += tokens * halves * width + width;
}

void add_compressed_attention(const LayerDesign& design, const CompressedAttention& attention,
                              const std::string& kind, LayerShape& layer) {
  const std::int64_t hidden = design.hidden_size, heads = design.num_heads;
  const std::int64_t width = design.head_dim, query = heads * width;
  const std::int64_t groups = attention.output_groups;
  layer.num_heads = heads;
  layer.num_kv_heads = 1;
  layer.head_dim = width;
  layer.latent_width = width - attention.rope;
  layer.rope_width = attention.rope;
  layer.attention_window = attention.window;
  layer.linears.push_back({"q_a_proj", hidden, attention.query_rank});
  layer.linears.push_back({"q_b_proj", attention.query_rank, query});
  layer.linears.push_back({"kv_a_proj", hidden, width});
  layer.linears.push_back({"o_a_proj", query / groups, groups * attention.output_rank});
  layer.linears.push_back({"o_b_proj", groups * attention.output_rank, hidden});
  layer.other_parameters += attention.query_rank + width + heads;  // two norms, and sinks
  if (kind == kSliding) return;
  const bool sparse = kind == kSparse;
  const std::int64_t halves = sparse ? 2 : 1;
  const std::int64_t tokens = sparse ? attention.sparse_tokens : attention.heavy_tokens;
  layer.tokens_per_entry = tokens;
  add_entries("compressor.", hidden, width, tokens, halves, layer);
  if (!sparse) return;
  layer.index_width = attention.index_width;
  layer.index_tokens = attention.index_entries;
  add_entries("indexer.", hidden, attention.index_width, tokens, halves, layer);
  layer.linears.push_back(
      {"indexer.wq_b", attention.query_rank, attention.index_heads * attention.index_width});
  layer.linears.push_back({"indexer.weights_proj", hidden, attention.index_heads});
}

}  // namespace

// Defaults are DeepseekV4Config's. The residual stream is `hc_mult` streams, which attention and
// the network of each layer join and part by a matrix of their own, and the model at its end.
void read_deepseek_v4(Config& config, ModelShape& model) {
  const CompressedAttention attention = read_attention(config);
  const std::int64_t width = config.size({"moe_intermediate_size"}, kSizeRange, 2048);
  read_llama_sizes(config,
                   {.max_context_tokens = 1048576,
                    .num_kv_heads = 1,
                    .head_dim = 512,
                    .num_heads = 64,
                    .vocab_size = 129280,
                    .ffn_size = width},
                   model);
  if (model.num_kv_heads != 1)
    config.fail("num_key_value_heads", "all heads of this attention share one; 1 belongs here");
  if (model.num_heads % attention.output_groups != 0) {
    config.fail("o_groups", fmt::format("{} heads do not split into {} groups", model.num_heads,
                                        attention.output_groups));
  }
  if (attention.rope >= model.head_dim) {
    config.fail("qk_rope_head_dim",
                fmt::format("{} of the {} of a head belong here", attention.rope, model.head_dim));
  }
  LayerDesign design = llama_design(model);
  design.ffn_size = model.ffn_size = width;
  read_experts(config, {"n_routed_experts", "num_local_experts"}, design);
  design.shared_ffn_size = width * config.size({"n_shared_experts"}, {0, 256}, 1);
  const std::int64_t streams = config.size({"hc_mult"}, {1, 64}, 4);
  const std::int64_t mixed = (2 + streams) * streams, wide = streams * model.hidden_size;
  model.final_other_parameters += streams * wide + streams + 1;

  const auto kinds = read_kinds(config, model.num_layers);
  const auto networks =
      config.layer_names("mlp_layer_types", model.num_layers, {"hash_moe", "moe"});
  const std::int64_t by_token = config.size({"num_hash_layers"}, {0, kLayersRange.high}, 3);
  for (std::int64_t i = 0; i < model.num_layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    LayerShape layer;
    add_compressed_attention(design, attention, kinds[at], layer);
    add_feed_forward(design, layer);
    layer.other_parameters += design.norm_parameters + 2 * (mixed * wide + mixed + 3);
    // The first layers choose experts by a table of tokens, the others have a number for each.
    const bool hashed = networks ? (*networks)[at] == "hash_moe" : i < by_token;
    if (!hashed) layer.other_parameters += design.num_experts;
    add_layer(model, layer);
  }
}

}  // namespace tessera::hf
