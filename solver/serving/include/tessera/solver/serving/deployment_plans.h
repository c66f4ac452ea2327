#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/files.h"
#include "tessera/core/placement.h"
#include "tessera/core/workload.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/plan.h"

/// Deployments as plans, for whoever exports, checks or prints them: nothing of a deployment is
/// decided or priced by these. Their batch is one request for each engine, with a prompt and an
/// output of usual_tokens.
namespace tessera::solver {

/// Layers of each stage of an engine that balance what a batch takes of the stages' time, within
/// the memory that it and the weights take; empty where it does not fit. Of the placement only
/// devices and bitwidths count. @throws as deployment_plans
std::vector<std::int64_t> balanced_layers(const cost::PricingContext& context,
                                          const Placement& placement, const PlacedEngine& engine,
                                          const Workload& workload);

/// One plan for each engine of a placement on the context's cluster, `devices` set in each: planner
/// "manual", with what is published of its quality. They pass check_plan.
/// @throws Error{invalid_argument} for a bitwidth without a kernel, and a model that does not fit,
/// with bytes.
std::vector<PipelinePlan> deployment_plans(const cost::PricingContext& context,
                                           const Placement& placement, const DataFolders& folders);

/// The same as one plan: a pipeline where one engine has the whole cluster, else its replicas.
Plan deployment_plan(const cost::PricingContext& context, const Placement& placement,
                     const DataFolders& folders);

}  // namespace tessera::solver
