#pragma once

#include <cstdint>
#include <optional>

#include "tessera/serving/deployment.h"

/// What an engine does at most, and about, from the prices of its steps alone: nothing is
/// simulated.
namespace tessera::solver {

/// Of the requests, on average (tokens).
struct MeanLengths {
  double prompt_tokens = 1, output_tokens = 1;
  /// In the KV cache of a request while a token of it is decoded, over all tokens: long answers
  /// count more. Absent: as of requests that are alike.
  std::optional<double> decode_context_tokens = {};
  /// Requests may find tokens of their prompts in a prefix cache.
  bool shares_prompts = false;
};

/// What limits the steps of an engine.
struct StepLimits {
  std::int64_t max_num_seqs = 256, max_num_batched_tokens = 8192;
  double tpot_limit_s = 0;  ///< that decode steps keep to; infinity: none
};

/// Times a bound, what a run may hold that starts empty and ends.
inline constexpr double kFiniteRun = 1.02;

struct EngineBounds {
  double ttft_s = 0, tpot_s = 0;  ///< of a request alone
  /// In decode steps of a batch within the limit on TPOT each request takes its share of
  /// output_tokens - 1 steps, and prompts cost at least what one more costs in a large step. A
  /// pipeline has such a batch under way for each of its stages. Quick, and no proof: one in twenty
  /// random engines passes it, by 11 % at most; what has to hold takes mixed_rate_per_s.
  double rate_per_s = 0;
  double prefill_rate_per_s = 0;  ///< in steps of prompts alone
  double decode_rate_per_s = 0;   ///< in decode steps alone, of
  std::int64_t decode_batch = 0;  ///< so many requests; 0: none keeps to the limit
  double decode_step_s = 0;
};
EngineBounds bounds_of(const serving::Replica& engine, const MeanLengths& lengths,
                       const StepLimits& limits);

/// The most that an engine sustains whose running requests decode in every step, as vLLM's do, by
/// the prices of its steps: a linear programme of how often it takes a step of each kind, so many
/// decodes beside so much of prompts. Each stage computes one step at a time, a pipeline has a
/// step under way for each of its stages, requests decode within the limit on TPOT in the mean,
/// and there are no more of them than seats, or than the KV cache holds in the mean. Prompts that
/// may be found in a prefix cache count nothing.
double mixed_rate_per_s(const serving::Replica& engine, const MeanLengths& lengths,
                        const StepLimits& limits);

/// About what an engine sustains: the largest rate up to `bound` whose steady state has room and
/// keeps to the limit on TPOT.
struct SteadyRate {
  double rate_per_s = 0;
  double decode_s = 0;  ///< how long a request decodes then
};
SteadyRate steady_rate(const serving::Replica& engine, const MeanLengths& lengths,
                       const StepLimits& limits, double bound_per_s);

}  // namespace tessera::solver
