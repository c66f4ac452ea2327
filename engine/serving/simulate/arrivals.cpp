#include "tessera/serving/arrivals.h"

#include <algorithm>
#include <utility>

namespace tessera::serving {
namespace {

/// A sum of times; kNever where it does not fit.
Ticks sum_of(Ticks a, Ticks b) { return a > kNever - b ? kNever : a + b; }

}  // namespace

Arrivals::Arrivals(const Traffic& traffic, Ticks api, std::function<void(Ticks, std::int64_t)> send)
    : traffic_(traffic),
      api_(api),
      send_(std::move(send)),
      next_turn_(traffic.requests.size(), -1),
      next_sibling_(traffic.requests.size(), -1) {
  for (std::size_t i = 0; i < traffic.requests.size(); ++i) {
    const std::int64_t after = traffic.requests[i].after;
    if (after < 0) continue;
    std::int64_t& first = next_turn_[static_cast<std::size_t>(after)];
    next_sibling_[i] = std::exchange(first, static_cast<std::int64_t>(i));
  }
}

// Open: one arrival is on its way at a time, the others are sorted already.
void Arrivals::send_next(Ticks now) {
  const auto& requests = traffic_.requests;
  while (!traffic_.concurrency && next_ < requests.size() && requests[next_].after >= 0) ++next_;
  if (next_ >= requests.size()) return;
  const Ticks due = requests[next_].arrival;
  const auto request = static_cast<std::int64_t>(next_);
  if (traffic_.concurrency) {
    ++next_;
    return send_(std::max(now, due) + api_, request);
  }
  send_(std::max(now, due + api_), request);
}

void Arrivals::begin() {
  for (std::int64_t sent = 0; sent < traffic_.concurrency.value_or(1); ++sent) send_next(0);
}

void Arrivals::came(std::int64_t request, Ticks now) {
  if (traffic_.concurrency || static_cast<std::size_t>(request) != next_) return;
  ++next_;
  send_next(now);
}

// Those that wait for it (the next turn of its session), or the next request of a closed loop.
void Arrivals::over(std::int64_t request, Ticks now) {
  for (std::int64_t next = next_turn_[static_cast<std::size_t>(request)]; next >= 0;
       next = next_sibling_[static_cast<std::size_t>(next)]) {
    send_(sum_of(now, traffic_.requests[static_cast<std::size_t>(next)].arrival + api_), next);
  }
  if (traffic_.concurrency) send_next(now);
}

Ticks Arrivals::leaves_at(std::int64_t request, Ticks now) const {
  return sum_of(now, traffic_.requests[static_cast<std::size_t>(request)].cancel_after);
}

}  // namespace tessera::serving
