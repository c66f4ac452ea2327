#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

namespace tessera::solver {

/// Some devices of a cluster, for one replica.
struct ClusterPart {
  std::string key;                   ///< the same for parts that no planner can tell apart
  std::vector<std::size_t> devices;  ///< ascending
};
using Split = std::vector<ClusterPart>;

struct Splits {
  std::vector<Split> splits;
  bool complete = true;  ///< false: there are more than kMostSplits, see list_splits
};

/// Ways beyond this many are not listed.
inline constexpr std::size_t kMostSplits = 1000;

/// Ways of splitting the devices into `num_parts` parts. Devices of one type on one node are alike,
/// and so are nodes that hold the same: of ways that differ only in which of them they take, one is
/// listed. Above kMostSplits only the one into equal parts is, where there is one.
Splits list_splits(const Cluster& cluster, std::size_t num_parts);

}  // namespace tessera::solver
