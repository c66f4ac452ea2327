#pragma once

#include "tessera/quant/quantise.h"

namespace tessera::quant {

/// Scales and zero points of every group as the scheme says, into `out`, which has its rows,
/// columns and scheme.
void choose_scales(MatrixView weight, int num_threads, Quantised& out);

/// Round-to-nearest, or stochastic.
Quantised round_to_nearest(MatrixView weight, const Scheme& scheme, int num_threads);

/// @throws Error{invalid_argument} where a scale does not fit its type
void check_scales(const Quantised& quantised);

}  // namespace tessera::quant
