#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/serving/log.h"

namespace tessera::serving::driven {

/// Collects the first difference between two values of a name.
class Differences {
 public:
  template <class Value>
  void expect(const std::string& what, const Value& a, const Value& b) {
    if (!first_.empty() || a == b) return;
    if constexpr (std::is_arithmetic_v<Value>) {
      first_ = fmt::format("{}: {} and {}", what, a, b);
    } else {
      first_ = what;
    }
  }
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

/// Number, sum and sum of squares of all gaps, which do not depend on how they were put together.
inline std::vector<double> gap_sums(const Log& log) {
  WideTicks count = 0, ticks = 0, squares = 0;
  for (const GapRun& run : log.gaps) {
    for (std::int64_t j = 0; j < run.count; ++j) {
      const WideTicks gap = run.ticks + run.slope * j;
      count += run.weight;
      ticks += gap * run.weight;
      squares += gap / 1000 * (gap / 1000) * run.weight;
    }
  }
  return {static_cast<double>(count), static_cast<double>(ticks), static_cast<double>(squares)};
}

/// What first differs between two runs; empty: they are the same to the tick. Not looked at: the
/// steps themselves.
inline std::string difference(const Log& a, const Log& b) {
  Differences d;
  d.expect("cut_off", a.cut_off, b.cut_off);
  for (std::size_t i = 0; i < a.requests.size(); ++i) {
    const RequestRecord &x = a.requests[i], &y = b.requests[i];
    const std::string of = fmt::format("request {}, ", i);
    d.expect(of + "arrival", x.arrival, y.arrival);
    d.expect(of + "replica", x.replica, y.replica);
    d.expect(of + "first_scheduled", x.first_scheduled, y.first_scheduled);
    d.expect(of + "first_token", x.first_token, y.first_token);
    d.expect(of + "transferred", x.transferred, y.transferred);
    d.expect(of + "decode_started", x.decode_started, y.decode_started);
    d.expect(of + "last_token", x.last_token, y.last_token);
    d.expect(of + "cancelled", x.cancelled, y.cancelled);
    d.expect(of + "output_tokens", x.output_tokens, y.output_tokens);
    d.expect(of + "cached_tokens", x.cached_tokens, y.cached_tokens);
    d.expect(of + "num_preemptions", x.num_preemptions, y.num_preemptions);
    d.expect(of + "recomputed_tokens", x.recomputed_tokens, y.recomputed_tokens);
    d.expect(of + "waited", x.waited, y.waited);
    d.expect(of + "outcome", static_cast<int>(x.outcome), static_cast<int>(y.outcome));
  }
  d.expect("number of samples", a.samples.size(), b.samples.size());
  for (std::size_t i = 0; i < std::min(a.samples.size(), b.samples.size()); ++i) {
    const StateSample &x = a.samples[i], &y = b.samples[i];
    const std::string of = fmt::format("sample {}, ", i);
    d.expect(of + "time", x.time, y.time);
    d.expect(of + "num_waiting", x.num_waiting, y.num_waiting);
    d.expect(of + "num_running", x.num_running, y.num_running);
    d.expect(of + "used_blocks", x.used_blocks, y.used_blocks);
    d.expect(of + "output_tokens", x.output_tokens, y.output_tokens);
  }
  for (std::size_t i = 0; i < a.replicas.size(); ++i) {
    const ReplicaRecord &x = a.replicas[i], &y = b.replicas[i];
    const std::string of = fmt::format("replica {}, ", i);
    d.expect(of + "num_steps", x.num_steps, y.num_steps);
    d.expect(of + "num_cancelled", x.num_cancelled, y.num_cancelled);
    d.expect(of + "num_requests", x.num_requests, y.num_requests);
    d.expect(of + "scheduled_tokens", x.scheduled_tokens, y.scheduled_tokens);
    d.expect(of + "prompt_tokens", x.prompt_tokens, y.prompt_tokens);
    d.expect(of + "block_ticks", x.block_ticks, y.block_ticks);
    d.expect(of + "slot_ticks", x.slot_ticks, y.slot_ticks);
    d.expect(of + "unusable_slot_ticks", x.unusable_slot_ticks, y.unusable_slot_ticks);
    d.expect(of + "refused_ticks", x.refused_ticks, y.refused_ticks);
    d.expect(of + "busy", x.busy, y.busy);
    d.expect(of + "stage_busy", x.stage_busy, y.stage_busy);
    d.expect(of + "most_blocks_used", x.most_blocks_used, y.most_blocks_used);
    d.expect(of + "prefix_queries", x.prefix_queries, y.prefix_queries);
    d.expect(of + "prefix_hits", x.prefix_hits, y.prefix_hits);
    d.expect(of + "num_preemptions", x.num_preemptions, y.num_preemptions);
    d.expect(of + "num_swaps", x.num_swaps, y.num_swaps);
  }
  d.expect("gaps", gap_sums(a), gap_sums(b));
  d.expect("end", a.end, b.end);
  return d.first();
}

}  // namespace tessera::serving::driven
