#pragma once

#include <cstdint>
#include <optional>

#include "family.h"

// What mixes tokens other than attention over keys and values: each a few sizes, read from a config
// or said by the family, and what they add to a layer: matrices, numbers that stay in FP16, and the
// state of a sequence.
namespace tessera::hf {

inline constexpr SizeRange kKernelRange{1, 1024};  // tokens that a short convolution sees

/// Multi-head latent attention (DeepSeek-V2, section 2.1 and appendix C): queries of a part without
/// positions and a rotary part, from a latent of their own where q_lora_rank is not null; keys and
/// values from another latent. With an indexer (DeepSeek-V3.2) that chooses tokens by keys of its
/// own.
struct LatentAttention {
  std::optional<std::int64_t> query_rank;
  std::int64_t rank = 0, plain = 0, rope = 0, value = 0;
  std::int64_t index_heads = 0, index_width = 0, index_tokens = 0;  ///< 0: no indexer
  bool shares_index = false;  ///< attends to what an earlier layer's indexer chose
  bool bias = false;          ///< of the projections from the hidden size, and back

  std::int64_t head_dim() const { return plain + rope; }
};
/// `query_rank_is_optional`: of classes that have none where q_lora_rank is not written.
LatentAttention read_latent_attention(Config& config, bool query_rank_is_optional = false);
void read_indexer(Config& config, LatentAttention& attention);
void add_latent_attention(const LayerDesign& design, const LatentAttention& attention,
                          LayerShape& layer);

/// Mamba (Gu and Dao 2023): a state of `state` numbers for each of `inner` channels.
struct Mamba {
  std::int64_t inner = 0, state = 16, rank = 0, kernel = 4;
  bool conv_bias = true, bias = false;
  bool norms = false;  ///< over the rank and over what is made of the state (Jamba)
};
void add_mamba(const LayerDesign& design, const Mamba& mamba, LayerShape& layer);

/// Mamba 2 (Dao and Gu 2024): heads of head_dim channels, whose keys and queries are shared by
/// groups.
struct Mamba2 {
  std::int64_t num_heads = 0, head_dim = 0, num_groups = 1, state = 128, kernel = 4;
  bool conv_bias = true, in_bias = false, out_bias = false;
  bool norm = true;  ///< before the output
};
void add_mamba2(const LayerDesign& design, const Mamba2& mamba, LayerShape& layer);
/// The keys that Falcon-H1, Granite 4 and Bamba share; `inner`: channels of all heads.
Mamba2 read_mamba2(Config& config, std::int64_t inner, std::int64_t default_heads,
                   std::int64_t default_state);

/// Gated delta net (Yang and others 2024): a matrix of key_dim x value_dim for each value head.
struct DeltaNet {
  std::int64_t num_key_heads = 0, num_value_heads = 0, key_dim = 0, value_dim = 0, kernel = 4;
};
DeltaNet read_delta_net(Config& config);
void add_delta_net(const LayerDesign& design, const DeltaNet& net, LayerShape& layer);

/// Kimi Delta Attention: a delta net that forgets by channel, its gates of low rank.
void add_kimi_delta(const LayerDesign& design, const DeltaNet& net, LayerShape& layer);

/// Linear attention with a fixed decay (Lightning attention): a matrix of head_dim x head_dim for
/// each head of the design.
void add_lightning_attention(const LayerDesign& design, LayerShape& layer);

/// LFM2: a gated convolution over the last `kernel` tokens, and no recurrence.
void add_short_convolution(const LayerDesign& design, std::int64_t kernel, bool bias,
                           LayerShape& layer);

}  // namespace tessera::hf
