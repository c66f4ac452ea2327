#pragma once

#include <vector>

#include "tessera/serving/summary.h"

/// The parts of a summary, a file each.
namespace tessera::serving {

/// A request that is looked at.
struct Looked {
  const RequestRecord* record = nullptr;
  std::size_t index = 0;  ///< of the traffic
};
using LookedAt = std::vector<Looked>;  ///< in order of arrival

inline bool finished(const RequestRecord& request) { return request.outcome == Outcome::finished; }
inline double ttft_s(const RequestRecord& r) { return to_seconds(r.first_token - r.arrival); }
inline double queue_s(const RequestRecord& r) { return to_seconds(r.first_scheduled - r.arrival); }
inline double e2e_s(const RequestRecord& r) { return to_seconds(r.last_token - r.arrival); }
/// 0 of a single token.
inline double tpot_s(const RequestRecord& r) {
  return r.output_tokens > 1
             ? to_seconds(r.last_token - r.first_token) / static_cast<double>(r.output_tokens - 1)
             : 0;
}

/// Most output tokens in a second, counted from `origin` on.
double peak_tok_s(const LookedAt& requests, Ticks origin);
std::int64_t peak_concurrency(const LookedAt& requests);

/// Goodput, attainment and the verdicts; needs duration and stability.
void add_attainment(Summary& summary, const LookedAt& requests, const SummaryOptions& options);

/// What replicas count, money and energy; needs throughput.
void add_resources(Summary& summary, const Log& log, std::int64_t block_size);

}  // namespace tessera::serving
