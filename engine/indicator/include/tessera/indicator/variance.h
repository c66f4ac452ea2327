#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/kernels/quantise.h"

/// The variance indicator: SplitQuant and LLM-PQ, eq. (3),
///
///     omega[i][b] = sum over the operators o of layer i of  D_W(o) S_W(o, b)^2 G(X_o),
///
/// with D_W the number of weights of the operator, S_W the quantisation step and
/// G(X) = 1/4 Var[X] (deterministic rounding) or 1/6 (E[X]^2 + Var[X]) (stochastic). Where weights
/// have a step per channel or group, every step counts for its own weights and their inputs.
///
/// Only the step depends on the bitwidth, and it is a range divided by a number of levels. So one
/// pass over the weights, whatever the bitwidths, is enough.
namespace tessera::indicator {

/// Mean and variance over tokens of every feature of an operator's input, [in_features] each. Both
/// empty: nothing is known; zero mean and unit variance are taken, as behind a normalisation.
struct InputMoments {
  std::span<const float> mean;
  std::span<const float> variance;
};

/// G(X) feature by feature, summed from the left: sums[j] is the sum over the features before j, so
/// that sums[last] - sums[first] belongs to the weights of one row in columns [first, last). In
/// Theorem 1 the inputs of a row are uncorrelated and their variances add up: D_W G(X) is this sum
/// over the weights, and G(X) its mean over features.
/// @returns [in_features + 1]
/// @throws Error{invalid_argument} for moments of another number of features, or not finite
std::vector<double> input_sums(const InputMoments& input, std::int64_t in_features,
                               kernels::Rounding rounding);

/// How the step follows from the range of the weights. The second is LLM-PQ's print, which has no
/// -1; read as 2^(b-1) in place of 2^b - 1 it doubles every asymmetric step: no order changes.
enum class StepForm { splitquant, llm_pq };

/// What the range is divided by: 2^(b-1) - 1 (symmetric, of max|W|) or 2^b - 1 (asymmetric, of
/// max - min); without the -1 in the other form.
double num_levels(int bitwidth, bool symmetric, StepForm form);

/// The range that one step covers with its levels: max|W|, or max - min with 0 between them, since
/// 0 has a code.
inline double range_of(double min, double max, bool symmetric) {
  if (symmetric) return std::max(std::abs(min), std::abs(max));
  return std::max(max, 0.0) - std::min(min, 0.0);
}

}  // namespace tessera::indicator
