// Large neighbourhoods: what a few models, or a few classes of nodes, run is decided anew while all
// else stays, by the same programme.

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "search.h"
#include "tessera/core/rng.h"

namespace tessera::solver {
namespace {

/// `number` different ones of 0 ... `of`-1.
std::set<std::size_t> drawn(Rng& rng, std::size_t number, std::size_t of) {
  std::set<std::size_t> chosen;
  while (chosen.size() < std::min(number, of)) {
    chosen.insert(static_cast<std::size_t>(rng.integer(0, static_cast<std::int64_t>(of) - 1)));
  }
  return chosen;
}

}  // namespace

void FleetSearch::improve(const FleetProgramme& programme, double until_s) {
  constexpr std::int64_t kNodes = 300;
  constexpr std::size_t kMostMisses = 120;
  if (!objective_) return;
  std::optional<FleetCounts> now = counts_of(space_, programme.units(), best_);
  if (!now) return;
  double value = std::numeric_limits<double>::infinity();
  Rng rng(static_cast<std::uint64_t>(options_.seed + 1000003 * num_improved_++));
  const std::vector<FleetProgramme::Decision> decisions = programme.decisions();
  for (std::size_t misses = 0; misses < kMostMisses; ++misses) {
    if (is_good_enough() || clock_.should_stop() || clock_.elapsed_s() > until_s) return;
    const std::vector<double> x = programme.encode(*now);
    const bool by_model = misses % 2 == 0;
    // Where nothing helps for long, more at a time.
    const std::size_t number = static_cast<std::size_t>(rng.integer(2, 4)) + misses / 30;
    const std::set<std::size_t> free = by_model ? drawn(rng, number, space_.wanted.size())
                                                : drawn(rng, number, space_.classes.size());
    std::vector<double> settled(x.size(), std::numeric_limits<double>::quiet_NaN());
    for (const FleetProgramme::Decision& d : decisions) {
      if (free.count(by_model ? d.model : d.node_class) == 0) settled[d.column] = x[d.column];
    }
    Part part = solve_part(programme, settled, {until_s, kNodes, false, "neighbours", &*now});
    if (!part.counts || part.value >= value - 1e-9) continue;
    if (value < std::numeric_limits<double>::infinity()) misses = 0;
    value = part.value;
    now = std::move(part.counts);
  }
}

}  // namespace tessera::solver
