#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "programme.h"

namespace tessera::solver {

/// What a packing spreads.
struct Spreading {
  /// [model] of its demand that may lie on one node, where that can be kept to; empty: all of it.
  std::vector<double> most_on_node;
  bool keeps = true;  ///< what runs stays where it is, where that can be kept to
};

/// Puts replicas on nodes: those over whole nodes first, then the largest into the fullest node
/// that takes it. Absent where that fails, which proves nothing.
std::optional<FleetPlacement> pack(const FleetSpace& space, const std::vector<Unit>& units,
                                   const FleetCounts& counts, const Spreading& spreading);

/// All ways to fill a node of a class with the shapes of its kinds that leave room for none of
/// them; absent where there are more than `most`.
std::optional<ClassPatterns> patterns_of(const FleetSpace& space, std::size_t node_class,
                                         std::size_t most);

/// Replicas of a placement by kind and unit, each node in the place of one of its unit; absent
/// where it names columns or nodes that the space does not have.
std::optional<FleetCounts> counts_of(const FleetSpace& space, const std::vector<Unit>& units,
                                     const FleetPlacement& placement);

}  // namespace tessera::solver
