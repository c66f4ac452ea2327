#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/plan.h"
#include "tessera/solver/serving/place.h"

/// Deployments as plans, for whoever exports, checks or prints them: nothing of a deployment is
/// decided or priced by these.
namespace tessera::solver {

/// The problem that such plans are of: a batch of one request with a prompt and an output of 1024
/// tokens, or half the model's context each; its indicator says nothing of quality.
Problem deployment_problem(cost::PricingContext context, const std::vector<std::int32_t>& bitwidths,
                           std::int32_t kv_bitwidth);
Problem deployment_problem(ModelShape model, Cluster cluster,
                           const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                           const std::string& kernel_set, const DataFolders& folders);

/// One plan for each engine of a placement, `devices` set in each: `problem` on the engine's
/// devices, one request at a time. Planner "manual"; plans pass check_plan. `join_replicas` makes
/// one plan of them.
/// @throws Error{invalid_argument} naming the field: bitwidths that the problem has not or that
/// have no kernel, and a model that does not fit, with bytes.
std::vector<PipelinePlan> deployment_plans(const Problem& problem, const Placement& placement);
/// Of place(problem's model, its cluster, shape), with its errors.
std::vector<PipelinePlan> deployment_plans(const Problem& problem, const DeploymentShape& shape);

}  // namespace tessera::solver
