#pragma once

#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tessera/core/rng.h"
#include "tessera/quant/quantise.h"

namespace tessera::test {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Roughly normal: the sum of four uniform draws.
inline float draw(Rng& rng) {
  return static_cast<float>((rng.uniform() + rng.uniform() + rng.uniform() + rng.uniform() - 2) *
                            std::sqrt(3.0));
}

inline RowMatrix random_matrix(std::int64_t rows, std::int64_t columns, Rng& rng) {
  RowMatrix m(rows, columns);
  for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = draw(rng);
  return m;
}

/// Inputs of a linear as calibration finds them: correlated, with a few channels far larger than
/// the rest.
inline RowMatrix random_inputs(std::int64_t tokens, std::int64_t features, Rng& rng) {
  RowMatrix x = random_matrix(tokens, features, rng);
  const RowMatrix mix = random_matrix(3, features, rng);
  x += random_matrix(tokens, 3, rng) * mix;
  for (std::int64_t j = 0; j < features; j += 7) x.col(j) *= 8;
  return x;
}

inline quant::MatrixView view(const RowMatrix& m) { return {m.data(), m.rows(), m.cols()}; }

inline quant::LinearStatistics statistics_of(const RowMatrix& x) {
  return quant::statistics_of(x.data(), x.rows(), x.cols(), true);
}

inline RowMatrix values_of(const quant::Quantised& q) {
  RowMatrix out(q.rows, q.columns);
  q.dequantise(0, q.rows, out.data());
  return out;
}

}  // namespace tessera::test
