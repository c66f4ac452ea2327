#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/rng.h"
#include "tessera/core/statistics.h"
#include "tessera/serving/distribution.h"

namespace tessera::serving::gap_property_test {
namespace {

/// Runs of all sizes, many gaps alike.
std::vector<GapRun> random_runs(Rng& rng) {
  std::vector<GapRun> gaps(static_cast<std::size_t>(rng.integer(1, 30)));
  const int bits = static_cast<int>(rng.integer(1, 62));
  for (GapRun& run : gaps) {
    run.count = rng.integer(0, 40);
    run.weight = rng.integer(0, 5);
    run.ticks = rng.integer(0, std::int64_t{1} << rng.integer(0, bits));
    run.slope = rng.integer(0, 3) > 0 ? 0 : rng.integer(0, run.ticks / 50 + 2);
    if (rng.integer(0, 3) == 0 && run.count > 0) run.slope = -(run.ticks / (run.count + 1));
  }
  return gaps;
}

std::vector<Ticks> expanded(const std::vector<GapRun>& gaps) {
  std::vector<Ticks> all;
  for (const GapRun& run : gaps) {
    for (std::int64_t j = 0; j < run.count; ++j) {
      all.insert(all.end(), static_cast<std::size_t>(run.weight), run.ticks + j * run.slope);
    }
  }
  return all;
}

RC_GTEST_PROP(Gaps, HaveTheRanksOfTheirExpansion, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const std::vector<GapRun> gaps = random_runs(rng);
  std::vector<Ticks> all = expanded(gaps);
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < all.size(); ++i) ranks.push_back(static_cast<std::int64_t>(i));
  RC_ASSERT(ranked_gaps(gaps, ranks) == all);
}

// Sums of at most 6,000 doubles in any order differ by less than 6,000 roundings of 2^-53 of the
// largest: 1e-12; squares about the mean lose it twice.
bool close(double a, double b, double scale) { return std::fabs(a - b) <= 4e-12 * scale; }

RC_GTEST_PROP(Gaps, HaveTheStatisticsOfTheirExpansion, ()) {
  Rng rng(*rc::gen::arbitrary<std::uint64_t>());
  const std::vector<GapRun> gaps = random_runs(rng);
  std::vector<double> all;
  for (const Ticks gap : expanded(gaps)) all.push_back(to_seconds(gap));
  const Distribution d = distribution_of(gaps);
  RC_ASSERT(d.n == static_cast<std::int64_t>(all.size()));
  if (all.empty()) return;
  std::sort(all.begin(), all.end());
  double mean = 0, squares = 0;
  for (const double gap : all) mean += gap / static_cast<double>(all.size());
  for (const double gap : all) {
    squares += (gap - mean) * (gap - mean) / static_cast<double>(all.size());
  }
  const double scale = all.back();
  RC_ASSERT(close(*d.mean, mean, scale));
  RC_ASSERT(std::fabs(*d.standard_deviation * *d.standard_deviation - squares) <=
            8e-12 * scale * scale);
  RC_ASSERT(*d.min == all.front());
  RC_ASSERT(*d.max == all.back());
  RC_ASSERT(close(*d.p50, quantile(all, .5), scale));
  RC_ASSERT(close(*d.p90, quantile(all, .9), scale));
  RC_ASSERT(close(*d.p95, quantile(all, .95), scale));
  RC_ASSERT(close(*d.p99, quantile(all, .99), scale));
  if (d.p90_low) RC_ASSERT(*d.p90_low <= *d.p90);
  if (d.p90_high) RC_ASSERT(*d.p90_high >= *d.p90);
}

}  // namespace
}  // namespace tessera::serving::gap_property_test
