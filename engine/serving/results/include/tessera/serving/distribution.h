#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/core/record.h"
#include "tessera/serving/log.h"

namespace tessera::serving {

/// A latency over requests or gaps, in seconds. Percentiles interpolate linearly between order
/// statistics at (n - 1) q, as NumPy does; the standard deviation has divisor n. Without values
/// there are no numbers but n = 0.
///
/// Intervals are at 95 %. Of the mean: batch means, the values in order cut into 20 batches (below
/// 20 values: each its own) and Student's t. Of percentiles: order statistics (binomial), exact for
/// independent values; a bound is absent where so few values have none. Requests that queue behind
/// each other are correlated, so the binomial counts `effective_n` values: as many independent ones
/// as would leave the mean as uncertain as its batches show it, at most n.
struct Distribution {
  std::int64_t n = 0;
  double effective_n = 0;
  std::int64_t num_batches = 0;
  std::optional<double> mean, standard_deviation, min, p50, p90, p95, p99, max;
  std::optional<double> mean_low, mean_high, p50_low, p50_high, p90_low, p90_high, p95_low,
      p95_high, p99_low, p99_high;
};

/// Of values in their order of arrival.
Distribution distribution_of(std::vector<double> values);

/// Of all gaps, each counted as often as its weight says, without expanding weights; memory does
/// not grow with the gaps. `effective_n` is at most (sum of weights)^2 / sum of their squares: the
/// gaps of one step are one observation.
/// @throws Error{internal} for a gap below zero, or counts beyond 2^62.
Distribution distribution_of(const std::vector<GapRun>& gaps);

/// The gaps with these ranks (0-based, ascending order of gaps), in ticks.
std::vector<Ticks> ranked_gaps(const std::vector<GapRun>& gaps,
                               const std::vector<std::int64_t>& ranks);

struct Interval {
  double low = 0, high = 1;
};

/// Wilson's interval at 95 % of a share that was seen in `n` trials, n > 0.
Interval wilson_interval(double share, double n);

/// Ranks (1-based) of the order statistics between which the quantile `q` of what n independent
/// values were drawn from lies with at least 95 %; absent: no such value.
struct RankInterval {
  std::optional<std::int64_t> low, high;
};
RankInterval quantile_ranks(std::int64_t n, double q);

/// As many independent values as leave the mean of these as uncertain as their batches show it.
double effective_size(const std::vector<double>& values);

}  // namespace tessera::serving

template <>
struct tessera::Fields<tessera::serving::Distribution> {
  using D = tessera::serving::Distribution;
  static constexpr auto list = std::tuple{
      field<&D::n>({.name = "n", .doc = "Values"}),
      field<&D::effective_n>(
          {.name = "effective_n",
           .doc = "Independent values that would leave the mean as uncertain; intervals of "
                  "percentiles rest on them"}),
      field<&D::num_batches>({.name = "num_batches", .doc = "Behind the interval of the mean"}),
      field<&D::mean>({.name = "mean", .doc = "Mean", .unit = "s"}),
      field<&D::standard_deviation>(
          {.name = "standard_deviation", .doc = "With divisor n", .unit = "s"}),
      field<&D::min>({.name = "min", .doc = "Smallest", .unit = "s"}),
      field<&D::p50>({.name = "p50", .doc = "Median", .unit = "s"}),
      field<&D::p90>({.name = "p90", .doc = "90th percentile", .unit = "s"}),
      field<&D::p95>({.name = "p95", .doc = "95th percentile", .unit = "s"}),
      field<&D::p99>({.name = "p99", .doc = "99th percentile", .unit = "s"}),
      field<&D::max>({.name = "max", .doc = "Largest", .unit = "s"}),
      field<&D::mean_low>({.name = "mean_low", .doc = "95 % interval by batch means", .unit = "s"}),
      field<&D::mean_high>({.name = "mean_high", .doc = "Its upper end", .unit = "s"}),
      field<&D::p50_low>({.name = "p50_low",
                          .doc = "95 % interval by order statistics; nil: too few values",
                          .unit = "s"}),
      field<&D::p50_high>({.name = "p50_high", .doc = "Its upper end", .unit = "s"}),
      field<&D::p90_low>({.name = "p90_low", .doc = "Likewise", .unit = "s"}),
      field<&D::p90_high>({.name = "p90_high", .doc = "Likewise", .unit = "s"}),
      field<&D::p95_low>({.name = "p95_low", .doc = "Likewise", .unit = "s"}),
      field<&D::p95_high>({.name = "p95_high", .doc = "Likewise", .unit = "s"}),
      field<&D::p99_low>({.name = "p99_low", .doc = "Likewise", .unit = "s"}),
      field<&D::p99_high>({.name = "p99_high", .doc = "Likewise", .unit = "s"})};
};
