#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/core/cluster.h"
#include "tessera/solver/fleet_pricing/plan_fleet.h"

namespace tessera::solver {

/// A placement on devices that have numbers.
struct FleetLayout {
  Cluster cluster;                  ///< the nodes that run anything
  std::vector<std::int64_t> nodes;  ///< [node of it] its number in the fleet
  /// [replica] devices of the cluster, in its order.
  std::vector<std::vector<std::size_t>> devices;
  /// The same of the prefill engines of pairs; of other replicas empty.
  std::vector<std::vector<std::size_t>> prefill_devices;
};

/// Gives every replica its devices: on each node the largest first, so that those whose sizes are
/// powers of two start at multiples of them.
/// @throws Error{internal} where a node has not what is placed on it
FleetLayout layout_of(const PricedFleet& fleet);

/// How keys and values of a model get from prefill to decode engines: over the slowest link from
/// the first of the devices of its pairs to another, since any of its prompts may be handed to any
/// of its decode engines; absent where it has no pair.
std::optional<serving::KvTransfer> transfer_of(const PricedFleet& fleet, const FleetLayout& layout,
                                               std::size_t model);

/// Name of a node of the fleet by its number.
std::string node_name(const PricedFleet& fleet, std::int64_t node);

}  // namespace tessera::solver
