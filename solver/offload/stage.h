#pragma once

#include <cstddef>
#include <vector>

#include "tessera/cost/memory.h"
#include "tessera/solver/offload/offload.h"

/// Parts of the cost model that its files share. Inside this module only.
namespace tessera::solver::offload {

inline constexpr std::int32_t kComputeBits = 16;  ///< FlexGen decompresses weights, then computes
inline constexpr double kActivationBytes = cost::activation_bytes(cost::MemoryPreset::physical);

/// Sizes that all stages share. `block` and `batch` are requests per block and per GPU batch.
struct Sizes {
  double block = 1, batch = 1, batches = 1;
  double prompt = 1, mean_context = 1;     ///< tokens, for times
  double max_prompt = 1, max_context = 1;  ///< tokens, for memory
  double hidden = 1;
};

/// One layer of a stage, and the bitwidth at which it is kept.
struct StoredLayer {
  const LayerShape* shape = nullptr;
  std::int32_t bitwidth = 16;
};

/// All terms of one stage. `device` into the cluster's devices; `sharers`: stages on the same node,
/// which share its disk and its processors.
OffloadStage build_stage(const BatchProblem& batch, const Sizes& sizes, std::size_t device,
                         StagePlace place, const std::vector<StoredLayer>& layers, double sharers,
                         const PlanOffload& settings);

}  // namespace tessera::solver::offload
