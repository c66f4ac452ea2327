#pragma once

#include <optional>

#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

/// What runs, and beside it as little as serves the demand again: nothing of it moves. Absent where
/// that does not do within the time, and for what it knows nothing of: reserves, budgets,
/// constraints and objective rate. @param running on the instance's nodes, of columns with one
/// class of requests
std::optional<FleetPlacement> repaired(const FleetInstance& instance, const FleetPlacement& running,
                                       const FleetOptions& options);

}  // namespace tessera::solver
