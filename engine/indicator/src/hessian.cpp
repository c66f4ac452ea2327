#include "hessian.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"

namespace tessera::indicator {
namespace {

constexpr std::uint64_t kStartSeed = 1;
constexpr int kMaxIterations = 1000;
constexpr double kTolerance = 1e-6;

void check(const Eigen::MatrixXf& hessian) {
  if (hessian.rows() != hessian.cols() || hessian.rows() == 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("a Hessian is square, this one is {} x {}", hessian.rows(), hessian.cols()),
        "statistics");
  }
  if (!hessian.allFinite()) {
    throw Error(ErrorCode::invalid_argument, "the Hessian holds NaN or infinity", "statistics");
  }
}

}  // namespace

double top_eigenvalue(const Eigen::MatrixXf& hessian) {
  check(hessian);
  Rng rng(kStartSeed);
  // A start that favours no direction has a part along the wanted one, whatever that is.
  Eigen::VectorXf v(hessian.cols());
  for (float& x : v) x = static_cast<float>(rng.uniform() - 0.5);
  v.normalize();
  double eigenvalue = 0;
  for (int i = 0; i < kMaxIterations; ++i) {
    const Eigen::VectorXf next = hessian * v;
    const double found = v.cast<double>().dot(next.cast<double>());
    const double length = next.cast<double>().norm();
    if (length == 0) return 0;
    const bool settled = std::abs(found - eigenvalue) <= kTolerance * std::abs(found);
    eigenvalue = found;
    if (settled && i > 2) break;
    v = next / static_cast<float>(length);
  }
  return std::max(eigenvalue, 0.0);
}

double top_eigenvalue_of_inverse_factor(const Eigen::MatrixXf& hessian, double damping) {
  check(hessian);
  Eigen::MatrixXd h = hessian.cast<double>();
  for (Eigen::Index j = 0; j < h.rows(); ++j) {
    if (h(j, j) == 0) h(j, j) = 1;
  }
  h.diagonal().array() += damping * h.diagonal().mean();
  const Eigen::LLT<Eigen::MatrixXd> factor(h);
  if (factor.info() == Eigen::Success) {
    h.setIdentity();
    factor.solveInPlace(h);
    // U^T is the lower factor of the inverse; U has the same diagonal.
    const Eigen::LLT<Eigen::MatrixXd> of_inverse(h);
    if (of_inverse.info() == Eigen::Success) return of_inverse.matrixLLT().diagonal().maxCoeff();
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a Hessian of {} features is not positive definite even with {} of its "
                          "mean diagonal added; were its statistics made from real inputs?",
                          hessian.rows(), damping),
              "statistics");
}

}  // namespace tessera::indicator
