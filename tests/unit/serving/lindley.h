#pragma once

#include <algorithm>
#include <cmath>

#include "tessera/core/rng.h"
#include "tessera/serving/log.h"

namespace tessera::serving::queues {

inline double exponential(Rng& rng) { return -std::log(1 - rng.uniform()); }

/// One server, first come first served, by Lindley's recursion. `gap` and `service` draw seconds.
template <class Gap, class Service>
Log lindley(std::int64_t n, Gap gap, Service service) {
  Log log;
  double arrival = 0, free = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    arrival += gap();
    const double start = std::max(arrival, free);
    free = start + service();
    RequestRecord request;
    request.arrival = to_ticks(arrival, "arrival");
    request.first_scheduled = to_ticks(start, "start");
    request.first_token = request.last_token = to_ticks(free, "end");
    request.output_tokens = 1;
    request.outcome = Outcome::finished;
    log.requests.push_back(request);
    log.end = request.last_token;
  }
  return log;
}

/// M/M/1 of unit service, from empty.
inline Log mm1(double rho, std::int64_t n, std::uint64_t seed) {
  Rng rng(seed);
  return lindley(
      n, [&] { return exponential(rng) / rho; }, [&] { return exponential(rng); });
}

/// Everybody is served at once: M/G/infinity.
template <class Service>
Log no_queue(double rate, std::int64_t n, std::uint64_t seed, Service service) {
  Rng rng(seed);
  Log log;
  double arrival = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    arrival += exponential(rng) / rate;
    RequestRecord request;
    request.arrival = request.first_scheduled = to_ticks(arrival, "arrival");
    request.first_token = request.last_token = to_ticks(arrival + service(rng), "end");
    request.output_tokens = 1;
    request.outcome = Outcome::finished;
    log.requests.push_back(request);
    log.end = std::max(log.end, request.last_token);
  }
  return log;
}

}  // namespace tessera::serving::queues
