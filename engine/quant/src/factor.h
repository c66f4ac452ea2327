#pragma once

#include <cstdint>
#include <vector>

#include "tessera/quant/scheme.h"
#include "tessera/quant/statistics.h"

namespace tessera::quant {

/// The Hessian as GPTQ needs it, columns in the order in which they are quantised:
/// H + diag(added) = R R^T with R upper triangular. R^-1 is the upper Cholesky factor of the
/// inverse that the paper calls for, so neither the inverse nor its factor is ever computed: the
/// error of the columns before comes in as (W - Q) R, and a block's own part of R^-1 is the inverse
/// of its diagonal block.
struct Factor {
  std::int64_t size = 0;
  std::int64_t block = 0;           ///< columns quantised before the rest is updated
  std::vector<float> r;             ///< [size, size] row-major; only the upper triangle counts
  std::vector<float> inverse;       ///< of each diagonal block, [width, width], block after block
  std::vector<float> added;         ///< [size], to the diagonal
  std::vector<std::int32_t> order;  ///< [size]: which column comes when
  std::vector<std::int32_t> group;  ///< [size]: which scale of a row belongs to it
  std::vector<bool> dead;           ///< [size], by column: no input ever reached it
  double damping = 0;               ///< what was added, over the mean of the diagonal

  const float* row(std::int64_t i) const { return r.data() + i * size; }
  std::int64_t width(std::int64_t first) const { return std::min(block, size - first); }
  const float* inverse_of(std::int64_t first) const { return inverse.data() + first * block; }
};

/// Damping is 1 % of the diagonal's mean, as in the paper, then ten times as much for as long as
/// the factorisation fails, up to the mean itself. Dead columns get the mean on their diagonal.
/// @param hessian at least one column is alive
/// @throws Error{invalid_argument} where that is not enough
Factor factorise(const Eigen::MatrixXf& hessian, const Scheme& scheme, int num_threads);

}  // namespace tessera::quant
