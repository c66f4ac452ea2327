#pragma once

#include <memory>
#include <vector>

#include "tessera/core/requests.h"
#include "tessera/serving/batch_run.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// How a batch of requests of several lengths is run.
enum class Batching {
  /// Prompts padded to the batch's longest, and every row kept until the longest output of its
  /// micro-batch is done: LLM-PQ's and FlexGen's runtimes, whose batches are rectangular.
  padded,
  /// Each request its own prompt, and its row given up after its last token: continuous batching
  /// without refilling, as SplitQuant's on vLLM within one batch.
  ragged,
};

/// The pipelines of one plan, with each unit's own time: real micro-batch sizes, each chunk's and
/// each round's own context.
class PlanPipeline {
 public:
  /// @throws Error for a plan that is broken or offloads.
  explicit PlanPipeline(const PipelinePlan& plan);

  const Problem& problem() const;
  /// A batch in which every request has the workload's mean lengths.
  serving::BatchPipeline of_means() const;
  /// A batch of these requests; an arrival may be negative. @throws Error{unsupported} for the plan
  /// of an abstract instance.
  serving::BatchPipeline of_batch(const std::vector<TracedRequest>& requests,
                                  Batching batching) const;

  struct Context;

 private:
  std::shared_ptr<const Context> context_;
};

}  // namespace tessera::solver
