#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/fleet/solved_fleet.h"

namespace tessera::solver {

/// Alike replicas on the same nodes that get the same of each class of requests.
struct ReplicaShares {
  std::size_t row = 0;  ///< of replica_rows, whose replicas they are in order
  std::int64_t count = 0;
  /// [class of requests of its model] of all requests of the class, what each of the replicas gets.
  std::vector<double> share;
};

/// Which replica serves how much of each class, as the linear programme of the checker has it: all
/// that serve anything are equally full, and as many as can be serve one class alone, at the rate
/// that is known of them. Shares of a class that is served add up to 1.
/// @param lost_node whose replicas serve nothing, and are left out
std::vector<ReplicaShares> shares_of(const SolvedFleet& fleet,
                                     std::optional<std::int64_t> lost_node = std::nullopt);

}  // namespace tessera::solver
