// A rule of somebody else says how many copies of each column it wants; the programme makes a
// placement of it that has at least these, or about these.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "search.h"
#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

void check_copies(const std::vector<double>& wanted, std::size_t columns) {
  if (wanted.size() != columns) {
    refuse("round", "it gave {} numbers, one for each of {} columns belongs here", wanted.size(),
           columns);
  }
  for (std::size_t c = 0; c < columns; ++c) {
    if (!(wanted[c] >= 0 && wanted[c] <= 1e12)) {
      refuse("round", "{} copies of column {} are outside [0, 1e12]", wanted[c], c);
    }
  }
}

}  // namespace

void FleetSearch::round_by_rule(const FleetProgramme& programme) {
  constexpr std::int64_t kNodes = 50;
  const std::vector<FleetProgramme::Decision> decisions = programme.decisions();
  std::vector<double> copies(instance_.columns.size(), 0);
  const auto column_of = [&](const FleetProgramme::Decision& d) {
    return space_.kinds[d.kind].column;
  };
  for (const FleetProgramme::Decision& d : decisions) copies[column_of(d)] += relaxed_[d.column];
  const std::vector<double> wanted = options_.round(copies);
  check_copies(wanted, copies.size());
  // Where the linear programme has the column, in its shares; else where it may be first.
  std::vector<double> least(programme.model().columns.size(),
                            -std::numeric_limits<double>::infinity());
  std::vector<double> left = wanted;
  for (const FleetProgramme::Decision& d : decisions) {
    const double all = copies[column_of(d)];
    const double share = all > 0 ? relaxed_[d.column] / all : 1;
    const double taken =
        std::min(left[column_of(d)], std::ceil(share * wanted[column_of(d)] - 1e-9));
    least[d.column] = std::min(taken, programme.model().columns[d.column].high);
    left[column_of(d)] -= least[d.column];
  }
  const std::vector<double> open(least.size(), std::numeric_limits<double>::quiet_NaN());
  Effort effort{clock_.elapsed_s() + clock_.left_s() * 0.1, kNodes, false, "round"};
  effort.least = &least;
  if (solve_part(programme, open, effort).counts) return;
  for (double& value : least) value -= 1;
  solve_part(programme, open, effort);
}

}  // namespace tessera::solver
