#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/cluster.h"

/// Devices of one node that hold equal shards of layers: alike, or of several types, of which the
/// slowest sets the pace and the smallest how much they hold.
namespace tessera {

/// The first of each type among devices of a cluster.
std::vector<std::size_t> one_of_each_type(const Cluster& cluster,
                                          const std::vector<std::size_t>& members);

/// "T4-16G" of alike devices, "2xRTX-3090+RTX-4090" of unlike ones in their order: no device's own
/// name has a '+'.
std::string group_type(const Cluster& cluster, const std::vector<std::size_t>& members);

/// With the number of devices: "2xT4-16G"; that of unlike ones is in the type.
std::string group_name(const std::string& group_type, std::int64_t degree);

/// The types of devices in a group's, each once.
std::vector<std::string> types_in(const std::string& group_type);

}  // namespace tessera
