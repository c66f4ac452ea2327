#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// Sizes of the micro-batches that a batch is cut into, as even as possible: 32 in at most 6 gives
/// 6, 6, 5, 5, 5, 5.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch_size, std::int64_t largest);

/// A batch of which is known how it is cut before its requests come.
struct MicroBatchPlan {
  std::vector<std::int64_t> prefill, decode;  ///< requests of each micro-batch, in order
  std::vector<std::int64_t> place;            ///< of each request, by number, in the batch
  /// Ticks in which the tokens of a decode micro-batch come back to the first stage, before each of
  /// its rounds; empty: none.
  std::function<Ticks(std::int64_t micro_batch)> return_ticks;
};

/// The scheduler `micro_batches` for such a batch.
std::unique_ptr<Scheduler> make_planned_batch(const EngineOptions& options,
                                              const BlockManager::Options& kv, MicroBatchPlan plan);

}  // namespace tessera::serving
