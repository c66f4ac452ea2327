// A trace at another rate by its intervals, as iServe scales Azure's (section 8): discretised,
// neighbours aggregated, and scaled by a factor. Which requests of an interval come, the paper does
// not say: here as even as can be.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sampling.h"
#include "tessera/core/error.h"
#include "trace_reader.h"

namespace tessera::serving {
namespace {

/// Of n neighbours, the place in the one that they become.
void merge(Traffic& traffic, Ticks interval, std::int64_t n) {
  if (n == 1) return;
  for (Request& r : traffic.requests) {
    r.arrival = r.arrival / interval / n * interval + r.arrival % interval;
  }
  std::stable_sort(traffic.requests.begin(), traffic.requests.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
}

/// Keeps request k where factor k passes a whole number; beyond 1 as often as it passes any.
void scale(Traffic& traffic, Ticks interval, double factor, std::int64_t seed,
           const std::string& path) {
  if (factor == 1) return;
  Rng rng = stream_of(seed, Draws::arrivals);
  std::vector<Request> kept;
  double passed = 0, sum = 0;
  for (const Request& r : traffic.requests) {
    sum += factor;
    const double last = passed;
    // What rounding takes from a sum must not take a request.
    passed = std::floor(sum + 1e-9);
    for (double copy = last; copy < passed; ++copy) {
      kept.push_back(r);
      if (copy == last) continue;
      kept.back().arrival = r.arrival / interval * interval +
                            static_cast<Ticks>(rng.uniform() * static_cast<double>(interval));
    }
    if (kept.size() > static_cast<std::size_t>(kMaxRequests)) {
      refuse(ErrorCode::out_of_range, path + ".intervals.factor", "more than {} requests",
             kMaxRequests);
    }
  }
  if (kept.empty()) {
    refuse(path + ".intervals.factor", "of {} requests {} is less than one; take a larger one",
           traffic.requests.size(), factor);
  }
  std::stable_sort(kept.begin(), kept.end(),
                   [](const Request& a, const Request& b) { return a.arrival < b.arrival; });
  traffic.requests = std::move(kept);
}

}  // namespace

void take_by_intervals(const TrafficOptions& o, const std::string& path, Traffic& traffic) {
  if (!o.intervals) return;
  for (const Request& r : traffic.requests) {
    if (r.after < 0) continue;
    refuse(path + ".intervals",
           "turns of the trace wait for answers and have no interval of their own; take rate_per_s "
           "or thin");
  }
  const Intervals& by = *o.intervals;
  const Ticks interval = to_ticks(by.interval_s, path + ".intervals.interval_s");
  merge(traffic, interval, by.merge);
  scale(traffic, interval, by.factor, o.seed, path);
  traffic.notes.push_back(fmt::format(
      "by intervals of {:.6g} s, each {} of the trace, with {:.6g} of their requests: bursts "
      "within "
      "an interval keep their length, gaps do not",
      by.interval_s, by.merge == 1 ? "one" : fmt::format("{} neighbours", by.merge), by.factor));
}

}  // namespace tessera::serving
