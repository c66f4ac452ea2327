#pragma once

#include <string>
#include <vector>

#include "tessera/solver/fleet_pricing/plan_fleet.h"

namespace tessera::solver {

/// What the weights of replicas that start take, and what had to be assumed for it.
struct FleetLoading {
  double seconds = 0;
  std::vector<std::string> nodes_with_assumed_disk;
};

/// Until all of them have their weights: each node reads them from its disk, one after the other,
/// and into a device no faster than PCIe lets it, as ts.replan has it. Nodes load at once.
FleetLoading loading_of(const PricedFleet& fleet, const FleetPlacement& starts);

}  // namespace tessera::solver
