#pragma once

#include "tessera/core/model_shape.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// Query-key pairs of `tokens` new tokens after `context`, each token seeing itself and what came
/// before, at most `window`. The half makes the integral equal the sum context + 1 .. context +
/// tokens; where the window cuts it is within 1/8 pair of the sum, and monotone for any real
/// arguments.
double causal_pairs(double tokens, double context, double window);

/// Experts that `rows` tokens touch when each picks `num_active` of `num_copies` evenly: smooth,
/// `num_active` for one row, and 1 for a dense matrix.
double copies_touched(const LinearShape& linear, double rows);

struct AttentionShape {
  double num_heads = 0, num_kv_heads = 0, head_dim = 0;
  double window = 0;  ///< 0: all tokens
};
AttentionShape attention_shape(const LayerShape& layer);

struct AttentionWork {
  double flop = 0;
  double bytes = 0;
};
/// Old keys and values read once, new ones written and read; queries in, outputs out in FP16.
AttentionWork attention_work(const AttentionShape& shape, double kv_bits, double batch_size,
                             double tokens, double context_tokens);

}  // namespace tessera::cost
