#include "damped_fit.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <numeric>

#include "tessera/core/rng.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kStep = 1e-4;  // of the numeric derivative

}  // namespace

// Sum of sqrt(1 + (r / scale)^2) - 1, scaled so that small errors count as their squares.
double DampedFit::cost(const VectorXd& errors, const VectorXd& moves) const {
  const auto z = errors.array() / scale;
  return 2 * scale * scale * ((1 + z.square()).sqrt() - 1).sum() +
         (precision.array() * moves.array().square()).sum();
}

VectorXd DampedFit::solve() const {
  VectorXd moves = VectorXd::Zero(precision.size());
  VectorXd r = residuals(moves);
  double least = cost(r, moves), damping = 1e-2;
  for (int step = 0; step < steps; ++step) {
    MatrixXd jacobian(r.size(), moves.size());
    for (Index j = 0; j < moves.size(); ++j) {
      VectorXd shifted = moves;
      shifted[j] += kStep;
      jacobian.col(j) = (residuals(shifted) - r) / kStep;
    }
    const VectorXd weights = (1 + (r.array() / scale).square()).rsqrt();
    MatrixXd normal = jacobian.transpose() * weights.asDiagonal() * jacobian;
    normal.diagonal() += precision;
    const VectorXd gradient = jacobian.transpose() * (weights.array() * r.array()).matrix() +
                              (precision.array() * moves.array()).matrix();
    const double before = least;
    for (int attempt = 0; attempt < 6; ++attempt) {
      MatrixXd damped = normal;
      damped.diagonal() *= 1 + damping;
      const VectorXd next = moves - damped.ldlt().solve(gradient);
      const VectorXd next_r = residuals(next);
      const double next_cost = cost(next_r, next);
      if (next_cost < least) {
        moves = next, r = next_r, least = next_cost;
        damping = std::max(damping / 4, 1e-6);
        break;
      }
      damping *= 5;
    }
    if (least > before * (1 - 1e-4)) break;
  }
  return moves;
}

std::vector<std::size_t> some_of(std::size_t count, std::size_t most) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (count <= most) return order;
  Rng rng(1);
  for (std::size_t i = 0; i < most; ++i) {
    const auto last = static_cast<std::int64_t>(count - 1);
    std::swap(order[i],
              order[static_cast<std::size_t>(rng.integer(static_cast<std::int64_t>(i), last))]);
  }
  order.resize(most);
  return order;
}

}  // namespace tessera::cost::models
