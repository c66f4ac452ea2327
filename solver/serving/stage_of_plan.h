#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tessera/core/stage_place.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// What a stage of a plan for a serving problem holds, and where.
struct StageOfPlan {
  std::vector<std::size_t> members;  ///< into the cluster's devices, the first one first
  StagePlace place{};
  struct Kind {
    std::int32_t layer_class = 0, bitwidth = 16;
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  std::map<Kind, std::int64_t> layers;  ///< how many of each

  std::int64_t degree() const { return static_cast<std::int64_t>(members.size()); }
};

/// @throws Error{unsupported} for the plan of an abstract instance or one that offloads,
/// Error{invalid_argument} for one whose stages are not on devices of its problem, or do not hold
/// its model's layers in order.
std::vector<StageOfPlan> stages_of_plan(const PipelinePlan& plan);

/// Tokens that a request may have, prompt and output: max_model_len, or what the model can do.
std::int64_t longest_context(const ModelShape& model, std::int64_t max_model_len);

}  // namespace tessera::solver
