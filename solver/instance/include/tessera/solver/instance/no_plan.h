#pragma once

#include <functional>
#include <optional>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The result of a request that find_obvious_infeasibility proves infeasible; absent when it must
/// be searched.
std::optional<PlanResult> refuse_hopeless(const Instance& instance, const PlanRequest& request);

using Solve = std::function<PlanResult(const Instance&, const PlanRequest&)>;

/// What binds when a complete search has found no plan: the micro-batch sizes that were asked for,
/// side constraints or the quality floor (when `solve` finds a plan without them, within `left_s`
/// and 2 s at most each), or else memory. `solve` must not explain in turn.
Violation explain_exhausted(const Instance& instance, const PlanRequest& request,
                            bool has_micro_batches, double left_s, const Solve& solve);

}  // namespace tessera::solver
