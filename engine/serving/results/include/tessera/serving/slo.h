#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/enum_names.h"
#include "tessera/core/record.h"

namespace tessera::serving {

enum class Metric { ttft_s, tpot_s, e2e_s, itl_s };

enum class Statistic { mean, p50, p90, p95, p99 };

/// What a latency has to keep to. Both sorts may be given.
struct LatencyTarget {
  std::optional<double> each;  ///< of every request, inclusive, seconds: goodput counts by it
  struct OfAll {
    Statistic statistic = Statistic::p99;
    double limit_s = 0;  ///< inclusive
  };
  std::vector<OfAll> of_all;  ///< of the distribution over requests

  bool empty() const { return !each && of_all.empty(); }
  /// The longest that a request may take and be within the SLO: `each`, else the loosest
  /// percentile.
  std::optional<double> longest_s() const;
};

/// Targets of one class of requests.
struct Slo {
  std::string name;
  LatencyTarget ttft_s, tpot_s, e2e_s;
  LatencyTarget itl_s;  ///< of the gaps of all requests together; no `each`

  const LatencyTarget& of(Metric metric) const;
  bool empty() const { return ttft_s.empty() && tpot_s.empty() && e2e_s.empty() && itl_s.empty(); }
};

/// @throws Error{out_of_range} for a limit that is negative or NaN, Error{invalid_argument} for a
/// limit of each gap; infinity is no limit. `path` is named.
void check_slo(const Slo& slo, const std::string& path);

/// Whether a target for a statistic of a class is kept.
struct TargetVerdict {
  std::string slo_class;
  Metric metric = Metric::ttft_s;
  Statistic statistic = Statistic::p99;
  double limit_s = 0;
  /// Rejected and unfinished requests count as infinitely late: absent where the statistic is.
  std::optional<double> value_s;
  bool holds = false;
};

}  // namespace tessera::serving

template <>
inline constexpr auto tessera::kEnumNames<tessera::serving::Metric> =
    tessera::enum_names<tessera::serving::Metric>({{tessera::serving::Metric::ttft_s, "ttft_s"},
                                                   {tessera::serving::Metric::tpot_s, "tpot_s"},
                                                   {tessera::serving::Metric::e2e_s, "e2e_s"},
                                                   {tessera::serving::Metric::itl_s, "itl_s"}});

template <>
inline constexpr auto tessera::kEnumNames<tessera::serving::Statistic> =
    tessera::enum_names<tessera::serving::Statistic>({{tessera::serving::Statistic::mean, "mean"},
                                                      {tessera::serving::Statistic::p50, "p50"},
                                                      {tessera::serving::Statistic::p90, "p90"},
                                                      {tessera::serving::Statistic::p95, "p95"},
                                                      {tessera::serving::Statistic::p99, "p99"}});

template <>
struct tessera::Fields<tessera::serving::TargetVerdict> {
  using T = tessera::serving::TargetVerdict;
  static constexpr auto list = std::tuple{
      field<&T::slo_class>({.name = "slo_class", .doc = "Class of requests; empty: all"}),
      field<&T::metric>({.name = "metric", .doc = "ttft_s, tpot_s, e2e_s or itl_s"}),
      field<&T::statistic>({.name = "statistic", .doc = "mean, p50, p90, p95 or p99"}),
      field<&T::limit_s>({.name = "limit_s", .doc = "What it has to keep to", .unit = "s"}),
      field<&T::value_s>({.name = "value_s",
                          .doc = "What it is; nil: infinite, as too many were never answered",
                          .unit = "s"}),
      field<&T::holds>({.name = "holds", .doc = "Whether it keeps to it"})};
};
