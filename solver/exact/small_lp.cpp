#include "small_lp.h"

#include <cmath>

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kMaxPivots = 300, kPivotsBeforeBland = 120;
constexpr double kTolerance = 1e-11;

}  // namespace

bool SmallLp::solve(std::vector<double>& x) {
  double largest = 0;
  for (const double c : cost_) largest = std::fmax(largest, std::fabs(c));
  for (std::size_t r = 0; r < rows_.size(); ++r) basis_.push_back(columns_ + r);
  for (std::size_t c = 0; c < columns_; ++c) outside_.push_back(c);
  bool finished = false;
  for (std::size_t step = 0; step < kMaxPivots; ++step) {
    const bool bland = step >= kPivotsBeforeBland;
    std::size_t enter = columns_;
    for (std::size_t c = 0; c < columns_; ++c) {
      if (cost_[c] <= kTolerance * largest) continue;
      const bool better =
          enter == columns_ || (bland ? outside_[c] < outside_[enter] : cost_[c] > cost_[enter]);
      if (better) enter = c;
    }
    if (enter == columns_) {
      finished = true;
      break;
    }
    std::size_t leave = rows_.size();
    double least = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r][enter] <= kTolerance) continue;
      const double ratio = rows_[r][columns_] / rows_[r][enter];
      if (leave == rows_.size() || ratio < least || (ratio == least && basis_[r] < basis_[leave])) {
        leave = r;
        least = ratio;
      }
    }
    if (leave == rows_.size()) break;
    pivot(leave, enter);
  }
  x.assign(columns_, 0);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (basis_[r] < columns_) x[basis_[r]] = std::fmax(0.0, rows_[r][columns_]);
  }
  return finished;
}

void SmallLp::pivot(std::size_t row, std::size_t column) {
  std::vector<double>& own = rows_[row];
  const double inverse = 1 / own[column];
  for (double& v : own) v *= inverse;
  own[column] = inverse;
  const auto eliminate = [&](std::vector<double>& other, std::size_t size) {
    const double factor = other[column];
    if (factor == 0) return;
    other[column] = 0;
    for (std::size_t c = 0; c < size; ++c) other[c] -= factor * own[c];
  };
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (r == row) continue;
    eliminate(rows_[r], columns_ + 1);
    if (rows_[r][columns_] < 0) rows_[r][columns_] = 0;
  }
  eliminate(cost_, columns_);
  std::swap(basis_[row], outside_[column]);
}

}  // namespace tessera::solver::exact
