#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>
#include <vector>

namespace tessera::cost::models {

/// Logarithms of predicted over measured that are to be small, after `moves` of the parameters from
/// where they start.
struct DampedFit {
  std::function<Eigen::VectorXd(const Eigen::VectorXd& moves)> residuals;
  Eigen::VectorXd precision;  ///< [move] a priori, per square
  double scale = 0.1;         ///< errors beyond this count linearly
  int steps = 20;

  /// The moves of the least cost: Levenberg-Marquardt with a numeric derivative.
  Eigen::VectorXd solve() const;

 private:
  double cost(const Eigen::VectorXd& errors, const Eigen::VectorXd& moves) const;
};

/// Indices of at most `most` of `count` points, the same for the same numbers: all of them in
/// order, or some at random.
std::vector<std::size_t> some_of(std::size_t count, std::size_t most);

}  // namespace tessera::cost::models
