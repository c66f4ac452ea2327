#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/requests.h"
#include "tessera/serving/batch_run.h"
#include "tessera/solver/plan/plan_pipeline.h"

namespace tessera::solver {

/// Whether a batch is there at its start, or its requests come as in the trace.
enum class BatchArrivals { all_at_once, trace };

struct BatchTrafficOptions {
  Batching batching = Batching::padded;
  BatchArrivals arrivals = BatchArrivals::all_at_once;
  std::int64_t num_batches = 16;
  std::uint64_t seed = 0;  ///< which requests are drawn; with arrivals they are the first ones
};

struct BatchedRequest {
  std::int64_t prompt_tokens = 0, output_tokens = 0;
  double arrival_s = 0;
  double ttft_s = 0, e2e_s = 0;  ///< from its arrival
  double tpot_s = 0;             ///< 0 for one token
};

/// Batches of a workload's own requests, one after another through the plan's pipeline: a batch
/// starts when the one before is done, since memory is reserved for one.
struct BatchTraffic {
  serving::BatchRun run;  ///< all batches; spans and `requests` of the first one
  serving::BatchPipeline first_pipeline;
  std::vector<BatchedRequest> requests;
  std::int64_t num_batches = 0;
  serving::BatchRun expected;  ///< one batch in which every request has the mean lengths
};

/// Whether the plan's workload has requests of its own.
bool has_trace(const PlanSummary& plan);

/// @throws Error{invalid_argument} where the workload has no trace, or no arrivals and those are
/// asked for; Error{unsupported} for plans that the event simulation does not know.
BatchTraffic simulate_batches(const PipelinePlan& plan, const BatchTrafficOptions& options,
                              bool record_spans);

}  // namespace tessera::solver
