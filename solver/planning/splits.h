#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

namespace tessera::solver {

/// Devices of one type on one node, in cluster order.
struct AlikeDevices {
  std::string type;
  std::size_t node_index = 0;
  std::vector<std::size_t> devices;
};
std::vector<AlikeDevices> alike_devices(const Cluster& cluster);

using Counts = std::vector<std::size_t>;  ///< [alike] how many a part takes

/// Some devices of a cluster, for one replica.
struct ClusterPart {
  std::string key;                   ///< the same for parts that no planner can tell apart
  std::vector<std::size_t> devices;  ///< ascending
};
using Split = std::vector<ClusterPart>;

/// Names parts so that those which no planner can tell apart have the same name.
class PartNames {
 public:
  /// Both are to outlive it.
  PartNames(const Cluster& cluster, const std::vector<AlikeDevices>& alike);
  std::string of(const Counts& counts) const;

 private:
  std::string of_node(const Counts& counts, std::size_t node) const;

  const Cluster& cluster_;
  const std::vector<AlikeDevices>& alike_;
};

/// Parts with so many devices each: the first of alike devices go to the first part that has some.
Split place(const std::vector<Counts>& parts, const std::vector<AlikeDevices>& alike,
            const PartNames& names);

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
