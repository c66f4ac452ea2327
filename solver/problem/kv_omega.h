#pragma once

#include <vector>

#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// What omega is multiplied with: 1, or what makes W = 1 when every layer has 4 bits (or the lowest
/// bitwidth that the indicator knows).
double omega_scale(const Problem& problem);

/// Quality lost by the KV cache of each layer at the problem's kv_bitwidth, [num_layers], in the
/// units of the indicator: what the script says, or else a default that is ASSUMED, not measured.
/// Rounding K and V to b bits is taken to cost what rounding the two matrices that put them out
/// would: their share of the layer's weights, times the variance of a b-bit step relative to 4 bits
/// (SplitQuant eq. (3) with unit weights and inputs), times the layer's mean omega at 4 bits. 0 at
/// 16 bits. Fewer KV heads, as in grouped-query models, have the smaller share.
std::vector<double> kv_omega(const BatchProblem& batch);

}  // namespace tessera::solver
