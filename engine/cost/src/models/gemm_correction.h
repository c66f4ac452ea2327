#pragma once

#include <vector>

#include "gemm_tiles.h"
#include "hats.h"

namespace tessera::cost::models {

/// Values of m at which a measured curve bends, and between which it follows the tiles.
const std::vector<double>& gemm_knots();

/// What the tiles leave over, as smooth shapes: the logarithm of a factor that is linear in these.
/// Hats (piecewise linear, 1 at one knot and 0 at the others) of log2 m, of each two of log2 m, n
/// and k, and of all three, and the loss in the last wave of five tiles. Constant outside the
/// outermost knots, so that beyond the measured range the tiles alone say how time grows.
void gemm_features(const GemmShape& shape, double num_sms, std::vector<Feature>& out);
int num_gemm_features();

/// The knots of m, n and k together, and the feature that is 1 at the first of them and 0 at the
/// others; the rest follow it. Values at these make any smooth function of the three.
struct GemmGrid {
  int first = 0;
  std::vector<GemmShape> shapes;
};
const GemmGrid& gemm_grid();

}  // namespace tessera::cost::models
