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

void FleetSearch::improve(const Formulation& formulation, double until_s) {
  constexpr std::int64_t kNodes = 300;
  constexpr int kMostMisses = 40;
  Rng rng(static_cast<std::uint64_t>(options_.seed));
  const std::vector<Formulation::Decision> decisions = formulation.decisions();
  std::size_t models = 3, classes = 3;
  for (int misses = 0; objective_ && misses < kMostMisses; ++misses) {
    if (is_good_enough() || clock_.should_stop() || clock_.elapsed_s() > until_s) return;
    const auto counts = counts_of(space_, formulation.units(), best_);
    if (!counts) return;
    const std::vector<double> now = formulation.encode(*counts);
    // What raises the least served model has to be free, and that may be any of them.
    const bool by_model = !maximises() && misses % 2 == 0;
    const std::set<std::size_t> free = by_model ? drawn(rng, models, space_.wanted.size())
                                                : drawn(rng, classes, space_.classes.size());
    std::vector<double> settled(now.size(), std::numeric_limits<double>::quiet_NaN());
    for (const Formulation::Decision& d : decisions) {
      if (free.count(by_model ? d.model : d.node_class) == 0) settled[d.column] = now[d.column];
    }
    const double before = *objective_;
    const bool searched = solve_part(formulation, settled, {until_s, kNodes, false, "neighbours"});
    // Neighbourhoods that are done with at once may be larger, others are too large.
    std::size_t& size = by_model ? models : classes;
    if (searched && misses > 8) size = size + 1;
    if (!searched) size = std::max<std::size_t>(2, size - 1);
    if (is_better(*objective_, before)) misses = -1;
  }
}

}  // namespace tessera::solver
