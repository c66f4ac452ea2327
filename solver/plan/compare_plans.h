#pragma once

#include <optional>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Where `plan` says something else than the plan that was made afresh of its decision: its
/// devices, then the first of its numbers that differs by more than kNumberSlack.
std::optional<Violation> find_difference(const PipelinePlan& plan, const PipelinePlan& fresh);

}  // namespace tessera::solver
