#pragma once

#include <cstdint>
#include <string>

#include "tessera/solver/fleet_pricing/plan_fleet.h"

namespace tessera::solver {

/// @throws Error{invalid_argument} for a request that contradicts itself
void check_request(const FleetRequest& request, const std::string& path);

/// What is asked, as columns on nodes: rates as far as they are known, else at their bounds.
/// @param num_leaving counts the replicas around it whose node or kind it does not have
FleetInstance instance_of(const FleetRequest& request, const FleetColumns& columns,
                          std::int64_t& num_leaving);

}  // namespace tessera::solver
