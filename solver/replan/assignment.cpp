#include "assignment.h"

#include <algorithm>
#include <limits>

namespace tessera::solver::replan_detail {

// Shortest augmenting paths with potentials (Jonker and Volgenant, 1987) on costs -gain, padded
// with zeros to a square.
std::vector<int> best_assignment(const std::vector<std::vector<double>>& gain) {
  const std::size_t rows = gain.size(), columns = rows == 0 ? 0 : gain.front().size();
  const std::size_t n = std::max(rows, columns);
  const auto cost = [&](std::size_t r, std::size_t c) {
    return r < rows && c < columns ? -gain[r][c] : 0.0;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> u(n + 1, 0), v(n + 1, 0);
  std::vector<std::size_t> row_of(n + 1, n);  // [column]; column n is the start of a path
  for (std::size_t row = 0; row < n; ++row) {
    std::vector<double> shortest(n + 1, kInfinity);
    std::vector<std::size_t> before(n + 1, n);
    std::vector<bool> done(n + 1, false);
    std::size_t at = n;
    row_of[n] = row;
    do {
      done[at] = true;
      const std::size_t r = row_of[at];
      double least = kInfinity;
      std::size_t next = n;
      for (std::size_t c = 0; c < n; ++c) {
        if (done[c]) continue;
        const double reduced = cost(r, c) - u[r] - v[c];
        if (reduced < shortest[c]) {
          shortest[c] = reduced;
          before[c] = at;
        }
        if (shortest[c] < least) {
          least = shortest[c];
          next = c;
        }
      }
      for (std::size_t c = 0; c <= n; ++c) {
        if (done[c]) {
          u[row_of[c]] += least;
          v[c] -= least;
        } else {
          shortest[c] -= least;
        }
      }
      at = next;
    } while (row_of[at] != n);
    while (at != n) {
      row_of[at] = row_of[before[at]];
      at = before[at];
    }
  }
  std::vector<int> column_of(rows, -1);
  for (std::size_t c = 0; c < columns; ++c) {
    if (row_of[c] < rows) column_of[row_of[c]] = static_cast<int>(c);
  }
  return column_of;
}

}  // namespace tessera::solver::replan_detail
