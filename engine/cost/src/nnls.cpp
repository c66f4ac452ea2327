#include "nnls.h"

#include <fmt/format.h>

#include <Eigen/QR>
#include <vector>

#include "tessera/core/error.h"

namespace tessera::cost {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Of a gradient, relative to |b|: columns have length one.
constexpr double kTolerance = 1e-11;
// Each step leaves a smaller residual, so it ends; rounding might make it turn in a circle.
constexpr Index kMaxSteps = 100;

void check(const MatrixXd& a, const VectorXd& b) {
  if (a.rows() != b.size() || a.rows() == 0 || a.cols() == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("least squares of {} x {} coefficients against {} values: one value "
                            "per row, at least one row and one column are needed",
                            a.rows(), a.cols(), b.size()));
  }
  if (!a.allFinite() || !b.allFinite()) {
    throw Error(ErrorCode::invalid_argument, "least squares: an entry is not a finite number");
  }
}

// Least squares over the columns in `passive`; the others are 0.
VectorXd solve_passive(const MatrixXd& a, const VectorXd& b, const std::vector<Index>& passive) {
  VectorXd x = VectorXd::Zero(a.cols());
  if (passive.empty()) return x;
  const auto count = static_cast<Index>(passive.size());
  MatrixXd columns(a.rows(), count);
  for (Index k = 0; k < count; ++k) columns.col(k) = a.col(passive[static_cast<std::size_t>(k)]);
  const VectorXd part = columns.colPivHouseholderQr().solve(b);
  for (Index k = 0; k < count; ++k) x(passive[static_cast<std::size_t>(k)]) = part(k);
  return x;
}

// The column outside `passive` that lowers the residual fastest, or -1: none does.
Index steepest(const VectorXd& gradient, const std::vector<bool>& is_passive, double tolerance) {
  Index best = -1;
  for (Index j = 0; j < gradient.size(); ++j) {
    if (is_passive[static_cast<std::size_t>(j)] || gradient(j) <= tolerance) continue;
    if (best < 0 || gradient(j) > gradient(best)) best = j;
  }
  return best;
}

class ActiveSet {
 public:
  ActiveSet(const MatrixXd& a, const VectorXd& b)
      : a_(a),
        b_(b),
        x_(VectorXd::Zero(a.cols())),
        is_passive_(static_cast<std::size_t>(a.cols()), false) {}

  VectorXd solve() {
    const double tolerance = kTolerance * b_.norm();
    for (Index step = 0; step < kMaxSteps * a_.cols(); ++step) {
      const Index entering = steepest(a_.transpose() * (b_ - a_ * x_), is_passive_, tolerance);
      if (entering < 0) break;
      is_passive_[static_cast<std::size_t>(entering)] = true;
      const VectorXd target = solve_passive(a_, b_, passive());
      if (target(entering) <= 0) {  // says what others say, but for rounding
        is_passive_[static_cast<std::size_t>(entering)] = false;
        break;
      }
      approach(target);
    }
    return x_;
  }

 private:
  std::vector<Index> passive() const {
    std::vector<Index> columns;
    for (Index j = 0; j < a_.cols(); ++j) {
      if (is_passive_[static_cast<std::size_t>(j)]) columns.push_back(j);
    }
    return columns;
  }

  // Goes towards the unconstrained solution; the column that turns negative first stops at 0 and
  // leaves, and what is left is solved again.
  void approach(VectorXd target) {
    for (;;) {
      double share = 1;
      Index leaving = -1;
      for (const Index j : passive()) {
        if (target(j) >= 0) continue;
        const double reach = x_(j) / (x_(j) - target(j));
        if (leaving < 0 || reach < share) share = reach, leaving = j;
      }
      if (leaving < 0) break;
      x_ += share * (target - x_);
      x_(leaving) = 0;
      is_passive_[static_cast<std::size_t>(leaving)] = false;
      target = solve_passive(a_, b_, passive());
    }
    x_ = target;
  }

  const MatrixXd& a_;
  const VectorXd& b_;
  VectorXd x_;
  std::vector<bool> is_passive_;
};

}  // namespace

VectorXd nnls(const MatrixXd& a, const VectorXd& b) {
  check(a, b);
  VectorXd lengths = a.colwise().norm();
  for (Index j = 0; j < lengths.size(); ++j) {
    if (lengths(j) == 0) lengths(j) = 1;
  }
  const MatrixXd scaled = a * lengths.cwiseInverse().asDiagonal();
  return ActiveSet(scaled, b).solve().cwiseQuotient(lengths);
}

}  // namespace tessera::cost
