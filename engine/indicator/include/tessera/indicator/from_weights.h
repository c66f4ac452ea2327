#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/indicator/indicator.h"
#include "tessera/quant/scheme.h"
#include "tessera/quant/statistics.h"
#include "tessera/weights/weights.h"

namespace tessera::indicator {

/// How an indicator is made from weights. Kinds and variants:
///
///  "variance"    "paper": SplitQuant eq. (3); "llm-pq": with the steps as LLM-PQ prints them;
///                "llm-pq-code": what its published code sums, c (R / (2^(b-1) - 1))^2 V with R the
///                largest max - min of an output channel, V the variance of a token's features,
///                summed over the tokens of a sample, and c = 4 for the matrices of the FFN,
///                else 1. (Where it means to average V over its samples the code keeps the last one
///                over their number; here it is their mean.)
///  "hessian"     "paper": largest eigenvalue of X^T X times |Q(W) - W|^2 (HAWQ); "llm-pq-code":
///  the
///                largest eigenvalue of the Cholesky factor of the inverse, times GPTQ's error
///  "gptq_error"  squared error of the outputs under GPTQ, mean over tokens
///  "measured"    the same under the rounding asked for: what quantising a layer's operators one by
///                one does to their outputs. Ground truth for the others short of the model's loss.
///
/// All but the first kind quantise, for which there are codes of 3, 4 and 8 bits; at 16 the weights
/// stay as they are and omega is 0. omega need not fall where bits are added.
struct WeightsRequest {
  std::string kind = "variance";
  std::string variant = "paper";
  std::vector<std::int32_t> bitwidths;
  quant::Scheme scheme;  ///< but for its bitwidth; variant "llm-pq-code" of variance has its own
  int num_threads = 0;   ///< 0: as many as there are processors; the result does not depend on it
  /// After every layer, on the calling thread: layers done. What it throws ends the work.
  std::function<void(std::size_t num_done, std::size_t num_layers)> progress;
};

/// Reads the weights of one layer after another, which are given back when it is done.
///
/// `statistics` may be null for kind "variance" but not its variant "llm-pq-code": then inputs are
/// taken to have zero mean and unit variance, and `source` says so. The other kinds need Hessians.
/// @throws Error{invalid_argument} for what is missing, of another model or not finite, and as
/// weights::linears_of and quant::quantise
Indicator make_from_weights(const weights::Weights& weights, const quant::Statistics* statistics,
                            const WeightsRequest& request);

}  // namespace tessera::indicator
