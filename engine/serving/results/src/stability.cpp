#include "tessera/serving/stability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/core/units.h"

namespace tessera::serving {
namespace {

constexpr std::size_t kSlices = 20;
constexpr double kCriticalT = 3.174;  // Student, 99.75 %, kSlices - 1 degrees of freedom
constexpr double kLeastGrowth = 10;
constexpr double kLongestStay = kSlices / 5.;  // a fifth of the phase
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
  double total = 0, t = 0, per_s = 0;
  bool significant() const { return t > kCriticalT && total >= kLeastGrowth; }
};

Ticks answered(const RequestRecord& request) {
  if (request.outcome == Outcome::cancelled) return request.cancelled;
  return request.outcome == Outcome::finished ? request.last_token : kNever;
}

using Requests = std::vector<const RequestRecord*>;
using Slices = std::array<double, kSlices>;

/// Requests that reach a point of their lives in each slice.
template <class Point>
Slices count(const Requests& requests, const Phase& phase, Point point) {
  Slices counts{};
  for (const RequestRecord* request : requests) {
    const Ticks time = point(*request);
    if (time != kNever && phase.holds(time)) ++counts[phase.slice(time)];
  }
  return counts;
}

/// How long the first quarter of the requests stayed, in slices; to the end of the run where it was
/// cut off.
std::vector<double> first_stays(const Requests& requests, const Phase& phase, Ticks end) {
  const double width_s = to_seconds(phase.end - phase.begin) / kSlices;
  std::vector<double> stays;
  for (std::size_t i = 0; i < (requests.size() + 3) / 4; ++i) {
    const Ticks left = std::min(answered(*requests[i]), end);
    stays.push_back(to_seconds(left - requests[i]->arrival) / width_s);
  }
  return stays;
}

/// Growth in each slice of the number that would be in the system if all stayed as long as those:
/// an empty system fills up, whatever its load. Arrivals are taken as even within a slice.
Slices filling_up(const std::vector<double>& stays, const Slices& arrivals) {
  std::array<double, kSlices + 1> within{};  // mean of min(stay, k)
  for (const double stay : stays) {
    for (std::size_t k = 1; k <= kSlices; ++k) {
      within[k] += std::min(stay, static_cast<double>(k)) / static_cast<double>(stays.size());
    }
  }
  Slices growth{};
  double before = 0;
  for (std::size_t k = 1; k <= kSlices; ++k) {
    double inside = 0;
    for (std::size_t i = 0; i < k; ++i) {
      inside += arrivals[i] * (within[k - i] - within[k - i - 1]);
    }
    growth[k - 1] = inside - before;
    before = inside;
  }
  return growth;
}

/// Growth of the number that were handed over, and wait for their first step on a decode engine.
Slices waiting_for_decode(const Requests& requests, const Phase& phase) {
  Requests moved;
  for (const RequestRecord* request : requests) {
    if (request->decode_started != 0) moved.push_back(request);
  }
  Slices growth = count(moved, phase, [](const RequestRecord& r) { return r.first_token; });
  const Slices left = count(moved, phase, [](const RequestRecord& r) { return r.decode_started; });
  for (std::size_t k = 0; k < kSlices; ++k) growth[k] -= left[k];
  return growth;
}

/// The test of a mean growth above 0.
Growth test(const Slices& growth, const Phase& phase) {
  Growth result;
  for (const double slice : growth) result.total += slice;
  const double mean = result.total / kSlices;
  double squares = 0;
  for (const double slice : growth) squares += (slice - mean) * (slice - mean);
  const double error = std::sqrt(squares / (kSlices - 1) / kSlices);
  if (error > 0) {
    result.t = mean / error;
  } else if (mean > 0) {
    result.t = std::numeric_limits<double>::infinity();
  }
  result.per_s = result.total / to_seconds(phase.end - phase.begin);
  return result;
}

double completions_per_s(const Requests& requests, const Phase& phase) {
  std::int64_t completed = 0;
  for (const RequestRecord* request : requests) {
    if (phase.holds(answered(*request))) ++completed;
  }
  return static_cast<double>(completed) / to_seconds(phase.end - phase.begin);
}

/// Answers per second in the last part of the phase; of the whole run where there is none in it.
double completion_rate(const Requests& requests, const Phase& phase, Ticks part, Ticks end) {
  const double last = completions_per_s(requests, {phase.end - part, phase.end});
  return last > 0 ? last : completions_per_s(requests, {phase.begin, std::max(end, phase.end)});
}

Stability untested(std::string reason) {
  Stability result;
  result.reason = std::move(reason);
  return result;
}

void accuse(Stability& result, const Growth& growth, double sustainable_per_s, std::string_view who,
            std::string_view more) {
  result.stable = false;
  result.t = growth.t;
  result.growth_per_s = growth.per_s;
  result.sustainable_request_per_s = sustainable_per_s;
  result.reason =
      fmt::format("requests {} grew by {} per second while requests arrived (t = {}){}", who,
                  format_number(growth.per_s, 3), format_number(growth.t, 3), more);
}

void run_tests(Stability& result, const Requests& requests, const Phase& phase, Ticks end) {
  const Slices came = count(requests, phase, [](const RequestRecord& r) { return r.arrival; });
  Slices left = count(requests, phase, [](const RequestRecord& r) { return r.first_scheduled; });
  Slices growth{};
  for (std::size_t k = 0; k < kSlices; ++k) growth[k] = came[k] - left[k];
  const Growth waiting = test(growth, phase);
  result.t = waiting.t;
  result.growth_per_s = waiting.per_s;
  const Ticks length = phase.end - phase.begin;
  if (waiting.significant()) {
    accuse(result, waiting, completion_rate(requests, phase, length / 2, end),
           "waiting for their first step", "");
    return;
  }
  const Growth handed_over = test(waiting_for_decode(requests, phase), phase);
  if (handed_over.significant()) {
    accuse(result, handed_over, completion_rate(requests, phase, length / 2, end),
           "waiting for a decode engine", "");
    return;
  }
  const std::vector<double> stays = first_stays(requests, phase, end);
  const double mean_stay =
      std::accumulate(stays.begin(), stays.end(), 0.0) / static_cast<double>(stays.size());
  if (mean_stay > kLongestStay) {
    result.reason = fmt::format(
        "the queue does not grow beyond chance, but requests came for only {} times as long as "
        "they stayed: a longer run may show that they pile up",
        format_number(kSlices / mean_stay, 2));
    return;
  }
  left = count(requests, phase, answered);
  const Slices filling = filling_up(stays, came);
  for (std::size_t k = 0; k < kSlices; ++k) growth[k] = came[k] - left[k] - filling[k];
  const Growth inside = test(growth, phase);
  if (inside.significant()) {
    accuse(result, inside, completion_rate(requests, phase, length / 4, end), "in the system",
           "; should it settle yet, the run was too short for it");
    return;
  }
  result.reason = "the queue does not grow beyond chance";
}

}  // namespace

Stability stability_of(const std::vector<RequestRecord>& all, Ticks end, bool closed_loop) {
  if (closed_loop) return untested("a closed loop waits for its answers: it cannot be overloaded");
  Requests requests;
  std::int64_t num_rejected = 0;
  for (const RequestRecord& request : all) {
    if (request.arrival > end) continue;
    if (request.outcome == Outcome::rejected) {
      ++num_rejected;
    } else {
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
  result.offered_request_per_s = static_cast<double>(std::ssize(requests) - 1 + num_rejected) /
                                 to_seconds(phase.end - phase.begin);
  if (requests.size() < kLeastRequests) {
    result.reason = fmt::format("{} requests are too few to tell overload from chance ({} needed)",
                                requests.size(), kLeastRequests);
    return result;
  }
  run_tests(result, requests, phase, end);
  return result;
}

}  // namespace tessera::serving
