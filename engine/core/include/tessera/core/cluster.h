#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/files.h"

namespace tessera {

/// A machine that holds devices.
struct Node {
  std::string name;
  std::optional<double> host_memory_bytes;
  std::optional<double> disk_bytes_per_s;
  std::optional<double>
      nvlink_bytes_per_s;  ///< overrides the devices' own; one direction, between any two
  bool nvlink = true;  ///< false: devices of this node talk over PCIe although they could do better
};

/// A way from one device to another.
struct Link {
  double bytes_per_s = 0;  ///< one direction
  double latency_s = 0;
  std::string kind;  ///< "nvlink", "pcie", "network", "self"
};

/// One device slot of a cluster.
struct ClusterDevice {
  Device device;
  std::size_t node_index = 0;
};

struct Cluster {
  std::string name;
  std::vector<Node> nodes;
  std::vector<ClusterDevice> devices;  ///< in the order given
  double network_bytes_per_s = 12.5e9;
  double network_latency_s = 30e-6;
  double intra_node_latency_s = 10e-6;
  std::string source;

  /// Link between devices by index; symmetric. NVLink needs it on both ends, else PCIe (the slower
  /// of the two).
  Link link(std::size_t from, std::size_t to) const;
};

Json to_json(const Cluster& cluster);  ///< self-contained: devices in full
/// `{ "name", "nodes": [{ "name", "devices": [["T4-16G", 3]], "host_memory_gib" }], "link_gbps" }`
/// or the self-contained form. Device names are looked up in `folders`.
Cluster cluster_from_json(const Json& json, const std::string& path, const DataFolders& folders);

/// "3xT4-16G+1xV100-32G": each term is a node of its own; an optional "@100Gbps" sets the network.
Cluster cluster_from_text(std::string_view text, const DataFolders& folders);

/// The device called `name`. @throws Error{not_found} with the nearest names.
Device find_device(const std::string& name, const DataFolders& folders);
Cluster find_cluster(const std::string& name, const DataFolders& folders);

}  // namespace tessera
