#pragma once

#include <optional>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// The checker's part for plans with replicas.
std::optional<Violation> check_replicas(const ReplicatedPlan& plan);

}  // namespace tessera::solver
