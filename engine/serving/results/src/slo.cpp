#include "tessera/serving/slo.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/units.h"

namespace tessera::serving {

std::optional<double> LatencyTarget::longest_s() const {
  if (each) return each;
  std::optional<double> longest;
  for (const OfAll& target : of_all) {
    if (target.statistic == Statistic::mean) continue;
    longest = std::max(longest.value_or(0), target.limit_s);
  }
  return longest;
}

const LatencyTarget& Slo::of(Metric metric) const {
  switch (metric) {
    case Metric::ttft_s:
      return ttft_s;
    case Metric::tpot_s:
      return tpot_s;
    case Metric::e2e_s:
      return e2e_s;
    case Metric::itl_s:
      break;
  }
  return itl_s;
}

void check_slo(const Slo& slo, const std::string& path) {
  for (const auto& [metric, name] : kEnumNames<Metric>) {
    const LatencyTarget& target = slo.of(metric);
    const auto check = [&, &field = name](double limit_s) {
      if (!(limit_s > 0)) {
        refuse(ErrorCode::out_of_range, path + "." + std::string(field),
               "a limit of {}; give seconds, more than 0",
               std::isnan(limit_s) ? "NaN" : format_number(limit_s, 6) + " s");
      }
    };
    if (target.each) check(*target.each);
    for (const auto& of_all : target.of_all) check(of_all.limit_s);
  }
  if (slo.itl_s.each) {
    refuse(path + ".itl_s",
           "gaps between tokens are pooled over requests, so no request has one; give a "
           "percentile, as itl_s = {{ p99 = {} }}",
           *slo.itl_s.each);
  }
}

}  // namespace tessera::serving
