#pragma once

#include <algorithm>

#include "tessera/core/model_shape.h"
#include "tessera/cost/kernel_set.h"
#include "tessera/cost/latency.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// Query-key pairs of `tokens` new tokens after `context`, each token seeing itself and what came
/// before, at most `window`. The half makes the integral equal the sum context + 1 .. context +
/// tokens; where the window cuts it is within 1/8 pair of the sum, and monotone for any real
/// arguments.
double causal_pairs(double tokens, double context, double window);

/// Experts here that `rows` tokens touch when each picks `num_active` of all evenly: smooth,
/// `num_active` for one row where all are here, and 1 for a dense matrix.
double copies_touched(const LinearShape& linear, double rows);

struct AttentionShape {
  double num_heads = 0, num_kv_heads = 0, head_dim = 0;
  double window = 0;                        ///< 0: all tokens
  double latent_width = 0, rope_width = 0;  ///< of latent attention; 0: none
  double value_dim = 0;                     ///< of a head
  /// Of keys that choose index_tokens among all; 0: none.
  double index_heads = 0, index_width = 0, index_tokens = 0;
  double tokens_per_entry = 0;  ///< of entries that stand for what a window leaves out; 0: none
};
AttentionShape attention_shape(const LayerShape& layer);

struct AttentionWork {
  double flop = 0;
  double bytes = 0;
};
/// Old keys and values read once, new ones written and read; queries in, outputs out in FP16.
/// Latent attention works on the latents themselves, as decoding does, or on the keys and values of
/// every head that it makes of them, as prompts do: whichever is less arithmetic.
AttentionWork attention_work(const AttentionShape& shape, double kv_bits, double batch_size,
                             double tokens, double context_tokens);

/// A state of fixed size, read and written once a pass for each sequence, updated and read for each
/// token, and what its convolution and gates read and write between the matrices. Assumed from the
/// recurrences (arXiv:2312.00752, 2405.21060, 2412.06464): six operations for each number of the
/// state and token; nobody's measurement.
AttentionWork state_work(const LayerShape& layer, double batch_size, double tokens);

/// Rates of attention kernels on a device: shares of its peaks.
struct AttentionRates {
  double flop_per_s = 0;
  double bytes_per_s = 0;

  double seconds(const AttentionWork& work) const {
    return std::max(work.flop / flop_per_s, work.bytes / bytes_per_s);
  }
};
AttentionRates attention_rates(const Device& device, const KernelSet& kernels);

/// What decoding a layer takes where it reads keys and values again for each further query head of
/// a group: `price` of the layer, and a share of what it would be more if each head had its own.
template <typename Price>
Prediction with_further_heads(const KernelSet& kernels, const Device& device,
                              const LayerShape& layer, const LayerWork& work, const Price& price) {
  Prediction time = price(layer);
  if (work.phase != Phase::decode) return time;
  const double share = kernels.further_head_share(layer, device);
  if (share == 0) return time;
  LayerShape alone = layer;
  alone.num_kv_heads = layer.num_heads;
  time.seconds.value += share * (price(alone).seconds.value - time.seconds.value);
  return time;
}

}  // namespace tessera::cost
