#pragma once

#include <functional>

#include "parts.h"

namespace tessera::solver {

/// How many pipelines share the batch; `several`: two at least.
enum class Pipelines { any, one, several };

/// Plans replicas of a problem, the least worst sum of one's own seconds and theta omega first.
using PlanReplicas =
    std::function<PlanOutcome(const OpenProblem&, const PlanOptions&, Pipelines pipelines)>;

/// Makes replicas that lose unlike quality the best whose seconds and omega are each the worst
/// replica's, with theta between them: a request may meet any of them.
/// @param of_sums what `plan_within` has for the problem, which no plan's objective is below
PlanOutcome share_quality(const OpenProblem& problem, const PlanOptions& options, Plan of_sums,
                          const PlanReplicas& plan_within);

}  // namespace tessera::solver
