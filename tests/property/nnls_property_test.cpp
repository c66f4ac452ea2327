#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <Eigen/QR>
#include <cmath>
#include <limits>

#include "nnls.h"

namespace tessera::cost::nnls_property_test {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double real(double low, double high) {
  return low + (high - low) * *rc::gen::inRange(0, 1'000'001) / 1e6;
}

struct Problem {
  MatrixXd a;
  VectorXd b;
};

// Whole numbers now and then, so that columns repeat, vanish or are orthogonal.
Problem any_problem() {
  const auto rows = *rc::gen::inRange<Index>(1, 9), columns = *rc::gen::inRange<Index>(1, 6);
  const bool whole = *rc::gen::arbitrary<bool>();
  Problem problem{MatrixXd(rows, columns), VectorXd(rows)};
  const auto entry = [&] { return whole ? *rc::gen::inRange(-2, 3) : real(-1, 1); };
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) problem.a(i, j) = entry();
    problem.b(i) = entry();
  }
  return problem;
}

// The best of the least squares solutions over every subset of columns that none turns negative.
double least_residual(const Problem& problem) {
  double least = problem.b.norm();
  const Index columns = problem.a.cols();
  for (unsigned subset = 1; subset < (1U << columns); ++subset) {
    MatrixXd part(problem.a.rows(), 0);
    for (Index j = 0; j < columns; ++j) {
      if ((subset >> j & 1U) == 0) continue;
      part.conservativeResize(Eigen::NoChange, part.cols() + 1);
      part.rightCols<1>() = problem.a.col(j);
    }
    const VectorXd x = part.colPivHouseholderQr().solve(problem.b);
    if (x.minCoeff() < 0) continue;
    least = std::min(least, (part * x - problem.b).norm());
  }
  return least;
}

RC_GTEST_PROP(NnlsProperty, NoSubsetOfColumnsDoesBetter, ()) {
  const Problem problem = any_problem();
  const VectorXd x = nnls(problem.a, problem.b);
  RC_ASSERT(x.minCoeff() >= 0);
  RC_ASSERT((problem.a * x - problem.b).norm() <= least_residual(problem) + 1e-9);
}

// Karush-Kuhn-Tucker: no column at 0 would lower the residual, and no other one would by moving.
RC_GTEST_PROP(NnlsProperty, TheGradientVanishesWhereItMay, ()) {
  const Problem problem = any_problem();
  const VectorXd x = nnls(problem.a, problem.b);
  const VectorXd gradient = problem.a.transpose() * (problem.b - problem.a * x);
  for (Index j = 0; j < x.size(); ++j) {
    RC_ASSERT(gradient(j) <= 1e-9);
    if (x(j) > 0) RC_ASSERT(std::abs(gradient(j)) <= 1e-9);
  }
}

RC_GTEST_PROP(NnlsProperty, ScalesOfColumnsDoNotMatter, ()) {
  const Problem problem = any_problem();
  VectorXd scale(problem.a.cols());
  for (Index j = 0; j < scale.size(); ++j) scale(j) = std::pow(10, *rc::gen::inRange(-12, 13));
  const VectorXd x = nnls(problem.a, problem.b);
  const VectorXd y = nnls(problem.a * scale.asDiagonal(), problem.b);
  const VectorXd back = scale.asDiagonal() * y;
  RC_ASSERT(std::abs((problem.a * back - problem.b).norm() - (problem.a * x - problem.b).norm()) <=
            1e-9);
}

}  // namespace
}  // namespace tessera::cost::nnls_property_test
