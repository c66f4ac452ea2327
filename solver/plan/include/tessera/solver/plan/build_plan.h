#pragma once

#include <string>
#include <vector>

#include "tessera/solver/instance/planner.h"
#include "tessera/solver/offload/offload_shares.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// The plan of a planner's answer, which has a candidate.
PipelinePlan build_plan(const LoweredProblem& problem, const PlanResult& result,
                        const std::string& planner);

/// The same for a plan that offloads; `shares` one per stage. Requires that there is no obstacle
/// (offload.h).
PipelinePlan build_offload_plan(const LoweredProblem& problem, const PlanResult& result,
                                const PlanOffload& settings,
                                const std::vector<StageOffload>& shares,
                                const std::string& planner);

/// Plans of parts of a batch problem's cluster, `devices` set in each, as one plan that runs them
/// side by side. Status, bound and gap are left to whoever searched.
ReplicatedPlan join_replicas(const Problem& problem, std::vector<PipelinePlan> replicas,
                             const std::string& planner);

/// Reads the decision back from a plan. @throws Error{invalid_argument} when devices or bitwidths
/// do not exist in the problem.
Candidate candidate_of(const Instance& instance, const PipelinePlan& plan);

/// Devices of the cluster that run nothing of a plan, ascending; none for an instance.
std::vector<std::size_t> unused_devices(const Plan& plan);

}  // namespace tessera::solver
