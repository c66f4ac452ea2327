#pragma once

#include <Eigen/Core>

namespace tessera::cost {

/// The x >= 0 that minimises |a x - b|^2, by Lawson and Hanson's active set (Solving Least Squares
/// Problems, 1974, chapter 23). Rows are weighted by the caller: multiply both sides. Columns may
/// differ in scale by many orders; of columns that say the same, the first carries the weight.
/// @throws Error{invalid_argument} where sizes do not agree or an entry is not finite.
Eigen::VectorXd nnls(const Eigen::MatrixXd& a, const Eigen::VectorXd& b);

}  // namespace tessera::cost
