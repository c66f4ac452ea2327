#pragma once

#include <cstddef>
#include <vector>

namespace tessera::solver::exact {

/// Linear programming: maximise c x subject to A x <= b, x >= 0, with b >= 0 so that x = 0 is
/// feasible. The primal simplex method on a dense tableau, for a dozen columns and a few dozen
/// rows. A wrong or unfinished answer is still feasible up to rounding, and nobody relies on its
/// being optimal.
class SmallLp {
 public:
  SmallLp(std::size_t columns, std::vector<double> cost)
      : columns_(columns), cost_(std::move(cost)) {}

  void add_row(std::vector<double> coefficients, double right) {
    rows_.push_back(std::move(coefficients));
    rows_.back().push_back(right > 0 ? right : 0);
  }
  /// @return false when unbounded or out of pivots; x is feasible all the same.
  bool solve(std::vector<double>& x);

 private:
  void pivot(std::size_t row, std::size_t column);

  std::size_t columns_;
  std::vector<double> cost_;
  std::vector<std::vector<double>> rows_;  ///< coefficients, then the right-hand side
  std::vector<std::size_t> basis_;         ///< [row] variable; columns_ + r is the slack of row r
  std::vector<std::size_t> outside_;       ///< [column] variable
};

}  // namespace tessera::solver::exact
