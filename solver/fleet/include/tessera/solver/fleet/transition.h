#pragma once

#include <cstdint>
#include <vector>

#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

/// The way from what runs to another placement of the same instance: new replicas come up before
/// old ones go where there is room, and elsewhere a node at a time.
struct FleetTransition {
  struct Step {
    bool starts = true;  ///< else it stops
    Replica replica;
  };
  std::vector<Step> steps;  ///< in order
  /// Nodes on which something has to stop before something can start.
  std::vector<std::int64_t> full_nodes;
  /// [model] the least multiple of its demand that is served on the way, both ends with it. Of a
  /// model without a demand, infinity.
  std::vector<double> least_scale;
};

/// @param from and `to` keep to the nodes of the instance
FleetTransition transition(const FleetInstance& instance, const FleetPlacement& from,
                           const FleetPlacement& to);

}  // namespace tessera::solver
