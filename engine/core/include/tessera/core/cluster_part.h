#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

namespace tessera {

/// Some devices of a cluster in their order: "2xT4-16G + 1xL4", neighbours of one type and node are
/// counted.
std::string describe_devices(const Cluster& cluster, const std::vector<std::size_t>& devices);

/// The same nodes and links with some of the devices, named after them.
/// @param devices indices into the cluster's, one at least
Cluster part_of(const Cluster& cluster, const std::vector<std::size_t>& devices);

}  // namespace tessera
