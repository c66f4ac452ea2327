#pragma once

#include "tessera/cost/op.h"

namespace tessera::cost::models {

/// A decoder layer, or its "self_attn" or "ffn" part, in one phase at one bitwidth, by the
/// regression of LLM-PQ (section 4.2) made physical. Its features, prefill [b, s, b s, b s^2, 1]
/// and decode [b (1 + i), b, i, 1], are kept as what they stand for, each in seconds at the
/// device's data-sheet rates so that a model of another width, or another device, changes the
/// features and not the coefficients:
///   seconds = weights * (weight bytes / bandwidth)
///           + products * (FLOP / peak rate) * (m / reference)^(exponent - 1),  m = b * tokens
///           + attention * max(FLOP / (0.30 peak rate), bytes / (0.14 bandwidth))
///           + overhead_s
/// Coefficients are never negative, so it is positive and rises with batch, tokens and context; it
/// is never below the data sheet's bounds. The exponent follows kernels whose time bends with m
/// (the first GPTQ kernels rise faster than the batch, FP16 prefill on V100 too); above the largest
/// m that was fitted, the curve goes on along its tangent.
///
/// Where the data cannot tell terms apart (one context, one width, one batch) priors decide:
/// attention and overhead stay near the values above and 150 us, the exponent near 1, and what is
/// left is shared in proportion to the data sheet. 16-bit decode with twice the cached tokens is
/// the exception: 0.14 was read off such rows, so there attention is estimated from the samples
/// alone, and it is the products that stay near the peak rate. With a donor its coefficients,
/// scaled as one, are the prior.
const FitMethod& layer_regression();

}  // namespace tessera::cost::models
