#include "tessera/serving/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tessera/core/units.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kSlices = 20;
constexpr double kCriticalT = 3.174;  // Student, 99.75 %, kSlices - 1 degrees of freedom
constexpr std::int64_t kLeastGrowth = 10;
constexpr std::size_t kLeastRequests = 2 * kSlices;

struct Phase {
  Ticks begin = 0, end = 0;

  /// 0 before it; slices are half open at their start, so that what happens at `end` counts.
  std::size_t slice(Ticks time) const {
    const double share = static_cast<double>(time - begin) / static_cast<double>(end - begin);
    return std::min(static_cast<std::size_t>(share * kSlices), kSlices - 1);
  }
  bool holds(Ticks time) const { return time > begin && time <= end; }
};

struct Growth {
  std::int64_t total = 0;
  double t = 0, per_s = 0;
  bool significant() const { return t > kCriticalT && total >= kLeastGrowth; }
};

Ticks answered(const RequestRecord& request) {
  return request.outcome == Outcome::finished ? request.last_token : kNever;
}

/// Arrivals less departures, slice by slice.
template <class Departure>
Growth growth_of(const std::vector<const RequestRecord*>& requests, const Phase& phase,
                 Departure departure) {
  std::array<std::int64_t, kSlices> growth{};
  for (const RequestRecord* request : requests) {
    if (phase.holds(request->arrival)) ++growth[phase.slice(request->arrival)];
    const Ticks left = departure(*request);
    if (left != kNever && phase.holds(left)) --growth[phase.slice(left)];
  }
  Growth result;
  for (const std::int64_t slice : growth) result.total += slice;
  const double mean = static_cast<double>(result.total) / kSlices;
  double squares = 0;
  for (const std::int64_t slice : growth) {
    squares += (static_cast<double>(slice) - mean) * (static_cast<double>(slice) - mean);
  }
  const double error = std::sqrt(squares / (kSlices - 1) / kSlices);
  if (error > 0) {
    result.t = mean / error;
  } else if (mean > 0) {
    result.t = std::numeric_limits<double>::infinity();
  }
  result.per_s = static_cast<double>(result.total) / to_seconds(phase.end - phase.begin);
  return result;
}

/// When the last of the first tenth of the requests had been answered; kNever: not all were.
Ticks filled_up(const std::vector<const RequestRecord*>& requests) {
  Ticks last = 0;
  for (std::size_t i = 0; i < (requests.size() + 9) / 10; ++i) {
    last = std::max(last, answered(*requests[i]));
  }
  return last;
}

double completion_rate(const std::vector<const RequestRecord*>& requests, const Phase& phase) {
  const Phase second_half{phase.begin + (phase.end - phase.begin) / 2, phase.end};
  std::int64_t completed = 0;
  for (const RequestRecord* request : requests) {
    if (second_half.holds(answered(*request))) ++completed;
  }
  return static_cast<double>(completed) / to_seconds(second_half.end - second_half.begin);
}

Stability untested(std::string reason) {
  Stability result;
  result.reason = std::move(reason);
  return result;
}

}  // namespace

Stability stability_of(const std::vector<RequestRecord>& all, Ticks end, bool closed_loop) {
  if (closed_loop) return untested("a closed loop waits for its answers: it cannot be overloaded");
  std::vector<const RequestRecord*> requests;
  for (const RequestRecord& request : all) {
    if (request.arrival <= end && request.outcome != Outcome::rejected) {
      requests.push_back(&request);
    }
  }
  std::stable_sort(requests.begin(), requests.end(),
                   [](auto* a, auto* b) { return a->arrival < b->arrival; });
  if (requests.empty() || requests.front()->arrival == requests.back()->arrival) {
    return untested("all requests came at once: a finite batch is always served in the end");
  }
  const Phase phase{requests.front()->arrival, requests.back()->arrival};
  Stability result;
  result.offered_request_per_s =
      static_cast<double>(requests.size() - 1) / to_seconds(phase.end - phase.begin);
  if (requests.size() < kLeastRequests) {
    result.reason = fmt::format("{} requests are too few to tell overload from chance ({} needed)",
                                requests.size(), kLeastRequests);
    return result;
  }
  Growth worst =
      growth_of(requests, phase, [](const RequestRecord& r) { return r.first_scheduled; });
  const char* what = "waiting for their first step";
  const Ticks full = filled_up(requests);
  if (full < phase.begin + (phase.end - phase.begin) / 2) {
    const Growth inside = growth_of(requests, {full, phase.end}, answered);
    if (inside.significant() && (!worst.significant() || inside.t > worst.t)) {
      worst = inside;
      what = "in the system";
    }
  }
  result.t = worst.t;
  result.growth_per_s = worst.per_s;
  result.stable = !worst.significant();
  if (!result.stable) {
    result.sustainable_request_per_s = completion_rate(requests, phase);
    result.reason = fmt::format("requests {} grew by {} per second while requests arrived (t = {})",
                                what, format_number(worst.per_s, 3), format_number(worst.t, 3));
  } else if (full >= phase.end) {
    result.reason =
        "requests came for a shorter time than the first answers took: a longer run "
        "may show that they pile up";
  } else {
    result.reason = "the queue does not grow beyond chance";
  }
  return result;
}

}  // namespace tessera::serving
