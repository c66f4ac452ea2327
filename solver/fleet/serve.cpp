// Requests shared out, for the checker: a simplex of its own, small and dense, so that no answer of
// the master's library is checked by that library.

#include "serve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::solver {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();
constexpr double kZero = 1e-11;

/// Maximises the first variable under rows whose slack variables are a feasible start.
class Tableau {
 public:
  Tableau(std::size_t rows, std::size_t columns)
      : width_(columns + rows + 1), basis_(rows), cell_(rows * width_, 0), cost_(width_, 0) {
    for (std::size_t r = 0; r < rows; ++r) {
      basis_[r] = columns + r;
      at(r, columns + r) = 1;
    }
    cost_[0] = 1;
  }

  double& at(std::size_t row, std::size_t column) { return cell_[row * width_ + column]; }
  double& right(std::size_t row) { return cell_[row * width_ + width_ - 1]; }

  /// The value of a variable where the first is largest.
  double value(std::size_t column) const {
    const auto row = std::find(basis_.begin(), basis_.end(), column);
    if (row == basis_.end()) return 0;
    return cell_[static_cast<std::size_t>(row - basis_.begin()) * width_ + width_ - 1];
  }

  double maximise() {
    // The most promising column is quick and may cycle, the first that promises anything may not.
    const std::size_t patience = 50 * (basis_.size() + 10);
    for (std::size_t step = 0;; ++step) {
      const std::size_t entering = step < patience ? best_column() : first_column();
      if (entering == width_) return -cost_.back();
      const std::size_t leaving = leaving_row(entering);
      if (leaving == basis_.size()) return kUnbounded;
      pivot(leaving, entering);
    }
  }

 private:
  std::size_t first_column() const {
    for (std::size_t c = 0; c + 1 < width_; ++c) {
      if (cost_[c] > kZero) return c;
    }
    return width_;
  }
  std::size_t best_column() const {
    const auto best = std::max_element(cost_.begin(), cost_.end() - 1);
    return *best > kZero ? static_cast<std::size_t>(best - cost_.begin()) : width_;
  }
  std::size_t leaving_row(std::size_t entering) {
    std::size_t best = basis_.size();
    double least = kUnbounded;
    for (std::size_t r = 0; r < basis_.size(); ++r) {
      if (at(r, entering) <= kZero) continue;
      const double ratio = right(r) / at(r, entering);
      if (ratio < least || (ratio == least && basis_[r] < basis_[best])) {
        least = ratio;
        best = r;
      }
    }
    return best;
  }
  void pivot(std::size_t row, std::size_t column) {
    const double by = at(row, column);
    for (std::size_t c = 0; c < width_; ++c) at(row, c) /= by;
    const auto clear = [&](double* cells) {
      const double factor = cells[column];
      if (factor == 0) return;
      for (std::size_t c = 0; c < width_; ++c) cells[c] -= factor * at(row, c);
      cells[column] = 0;
    };
    for (std::size_t r = 0; r < basis_.size(); ++r) {
      if (r != row) clear(&cell_[r * width_]);
    }
    clear(cost_.data());
    basis_[row] = column;
  }

  std::size_t width_;
  std::vector<std::size_t> basis_;
  std::vector<double> cell_, cost_;
};

}  // namespace

SharedTime shared_time(const std::vector<Servers>& servers, const std::vector<double>& demand) {
  SharedTime shared{kUnbounded, {servers.size(), std::vector<double>(demand.size(), 0)}};
  std::vector<std::size_t> wanted;
  for (std::size_t b = 0; b < demand.size(); ++b) {
    if (demand[b] > 0) wanted.push_back(b);
  }
  // No class is served more often than by all servers together.
  for (const std::size_t b : wanted) {
    double total = 0;
    for (const Servers& s : servers) total += s.copies * (*s.rate)[b];
    shared.multiple = std::min(shared.multiple, total / demand[b]);
  }
  if (wanted.size() == 1) {
    for (std::size_t k = 0; k < servers.size(); ++k) {
      shared.share[k][wanted.front()] = (*servers[k].rate)[wanted.front()] > 0 ? 1 : 0;
    }
  }
  if (wanted.size() <= 1 || shared.multiple == 0) return shared;
  // Column 0 is x over what is above, the others the shares of the time of a kind of servers.
  const double most = shared.multiple;
  const std::size_t kinds = servers.size(), classes = wanted.size();
  Tableau tableau(kinds + classes, 1 + kinds * classes);
  for (std::size_t k = 0; k < kinds; ++k) {
    for (std::size_t b = 0; b < classes; ++b) {
      const std::size_t column = 1 + k * classes + b;
      tableau.at(k, column) = 1;
      const double served = servers[k].copies * (*servers[k].rate)[wanted[b]] / demand[wanted[b]];
      tableau.at(kinds + b, column) = -served / most;
    }
    tableau.right(k) = 1;
  }
  for (std::size_t b = 0; b < classes; ++b) tableau.at(kinds + b, 0) = 1;
  shared.multiple = tableau.maximise() * most;
  for (std::size_t k = 0; k < kinds; ++k) {
    for (std::size_t b = 0; b < classes; ++b) {
      shared.share[k][wanted[b]] = tableau.value(1 + k * classes + b);
    }
  }
  return shared;
}

double largest_multiple(const std::vector<Servers>& servers, const std::vector<double>& demand) {
  return shared_time(servers, demand).multiple;
}

}  // namespace tessera::solver
