#pragma once

#include <optional>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Everything about a plan, from scratch: structure, memory, kernels, quality floor, and that the
/// printed numbers are what the models say. Of a plan with replicas each on its own, that they
/// stand on different devices of the one cluster and share out its batch, and that the numbers
/// above them follow.
std::optional<Violation> check_plan(const Plan& plan);
std::optional<Violation> check_plan(const PipelinePlan& plan);

}  // namespace tessera::solver
