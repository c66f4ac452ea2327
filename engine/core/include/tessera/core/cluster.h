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
  /// Cards that take NVLink bridges are joined in pairs: the first and second of a type, the third
  /// and fourth, ...; a pair talks to the others over PCIe.
  bool nvlink_bridges = false;
  /// Whether devices reach each other's memory over PCIe (`nvidia-smi topo -p2p r`); absent: as
  /// their sheets have it. Virtual machines and hosts with an IOMMU mostly do not let them.
  std::optional<bool> peer_access;
};

/// A way from one device to another.
struct Link {
  double bytes_per_s = 0;  ///< one direction
  double latency_s = 0;
  std::string kind;  ///< "nvlink", "pcie", "network", "self"
  /// Each pair has wires of its own (Infinity Fabric), so a device that talks to n others at once
  /// has n times the rate; through a switch (NVLink) it has the rate once.
  bool mesh = false;
  /// Of PCIe: false where neither end reaches the other's memory, so that all passes the host's.
  bool peer_access = true;
};

/// One device slot of a cluster.
struct ClusterDevice {
  Device device;
  std::size_t node_index = 0;
  /// Two devices of a node with one number are joined by an NVLink bridge.
  std::optional<std::int32_t> nvlink_pair = {};
};

struct Cluster {
  std::string name;
  std::vector<Node> nodes;
  std::vector<ClusterDevice> devices;  ///< in the order given
  double network_bytes_per_s = 12.5e9;
  double network_latency_s = 30e-6;
  double intra_node_latency_s = 10e-6;
  std::string source;
  std::vector<std::string> notes;  ///< of names that fit more than one sheet, which was taken

  /// Link between devices by index; symmetric. NVLink needs it on both ends, or a bridge between
  /// the two, else PCIe (the slower of the two).
  Link link(std::size_t from, std::size_t to) const;

  /// Whether an NVLink bridge joins two devices.
  bool bridged(std::size_t from, std::size_t to) const;
};

template <>
struct Fields<Node> {
  static constexpr double kMinBytesPerS = 1;
  static constexpr auto list = std::tuple{
      field<&Node::name>({.name = "name", .doc = "Name, 1 to 128 characters"}),
      field<&Node::host_memory_bytes>({.name = "host_memory_bytes",
                                       .doc = "Memory of the host",
                                       .unit = "bytes",
                                       .min = 0,
                                       .max = 1e18,
                                       .in_file = InFile::when_set}),
      field<&Node::disk_bytes_per_s>({.name = "disk_bytes_per_s",
                                      .doc = "Rate of its disk, either direction",
                                      .unit = "bytes/s",
                                      .min = kMinBytesPerS,
                                      .max = kMaxBytesPerS,
                                      .in_file = InFile::when_set,
                                      .in_scripts = false}),
      field<&Node::nvlink_bytes_per_s>({.name = "nvlink_bytes_per_s",
                                        .doc = "NVLink between any two devices, one direction",
                                        .unit = "bytes/s",
                                        .min = kMinBytesPerS,
                                        .max = kMaxBytesPerS,
                                        .in_file = InFile::when_set,
                                        .in_scripts = false}),
      field<&Node::nvlink>({.name = "nvlink",
                            .doc = "false: devices talk over PCIe although they have NVLink",
                            .in_file = InFile::defaulted,
                            .in_scripts = false}),
      field<&Node::nvlink_bridges>({.name = "nvlink_bridges",
                                    .doc = "true: bridges join the cards that take them in pairs",
                                    .in_file = InFile::when_set,
                                    .in_scripts = false}),
      field<&Node::peer_access>({.name = "peer_access",
                                 .doc = "Whether devices reach each other's memory over PCIe; left "
                                        "out: as their sheets have it",
                                 .in_file = InFile::when_set,
                                 .in_scripts = false})};
  static void check(const Node& node, const FieldPath& path);
};

/// Nodes and devices stand before these in a file, in the two forms that cluster_from_json tells.
template <>
struct Fields<Cluster> {
  static constexpr auto list = std::tuple{
      field<&Cluster::name, NotInFiles>({.name = "name", .doc = "Name"}),
      field<&Cluster::devices, NotInFiles>(
          {.name = "devices", .doc = "In the order given", .script_type = "tessera.Device[]"}),
      field<&Cluster::nodes, NotInFiles>(
          {.name = "nodes", .doc = "name, host_memory_bytes", .script_type = "table[]"}),
      field<&Cluster::network_bytes_per_s>({.name = "network_bytes_per_s",
                                            .doc = "Between nodes, one direction",
                                            .unit = "bytes/s",
                                            .min = 1,
                                            .max = kMaxBytesPerS,
                                            .in_file = InFile::defaulted}),
      field<&Cluster::network_latency_s>({.name = "network_latency_s",
                                          .doc = "Between nodes",
                                          .unit = "s",
                                          .min = 0,
                                          .max = 10,
                                          .in_file = InFile::defaulted,
                                          .in_scripts = false}),
      field<&Cluster::intra_node_latency_s>({.name = "intra_node_latency_s",
                                             .doc = "Within a node",
                                             .unit = "s",
                                             .min = 0,
                                             .max = 10,
                                             .in_file = InFile::defaulted,
                                             .in_scripts = false}),
      field<&Cluster::source>({.name = "source",
                               .doc = "Where the description comes from",
                               .in_file = InFile::when_set})};
};

/// Most devices that a cluster may have.
inline constexpr std::size_t kMaxClusterDevices = 4096;

/// The self-contained form, which reads back exactly: every device in full, in cluster order, with
/// the name of its node:
/// `{ "name", "nodes": [{ "name", "host_memory_bytes", ... }],
///    "devices": [{ <fields of Device>, "node": "a" }], "network_bytes_per_s", ... }`.
Json to_json(const Cluster& cluster);

/// The form for people,
/// `{ "name", "nodes": [{ "name", "devices": [["T4-16G", 3]], "host_memory_gib" }], "link_gbps" }`,
/// or the self-contained form, told apart by "devices" at the top. In the former
/// - a device entry is `["T4-16G", 3]`, `["T4-16G"]`, `"T4-16G"`, or has an object with the fields
///   of a Device in place of the name; names are looked up in `folders`;
/// - a node may have host_memory_gib | host_memory_bytes, disk_bytes_per_s, nvlink (true or false),
///   peer_access (true or false),
///   nvlink_gbps | nvlink_bytes_per_s, nvlink_bridges (true or false), or nvlink_pairs, the cards
///   that a bridge joins where not all are in pairs: [[0, 1]], numbers among the node's devices;
/// - the cluster may have link_gbps | network_bytes_per_s (the network), network_latency_s,
///   intra_node_latency_s, source, and nvlink_gbps: the rate of NVLink on every node whose devices
///   all have it and that does not say otherwise.
Cluster cluster_from_json(const Json& json, const std::string& path, const DataFolders& folders);

/// Has every node with two alike cards that take NVLink bridges join them in pairs. `where` is the
/// option or file for the message. @throws Error{invalid_argument} where no node has such cards.
void join_by_bridges(Cluster& cluster, const std::string& where);

/// "3xT4-16G+1xV100-32G", also with spaces or commas: each term is a node of its own; a device
/// alone is one. "(2xRTX-3090+1xRTX-4090)" is one node,
/// "2x(4xA100-40G)" two alike. After them "@100Gbps" sets the network, "@bridges" joins cards by
/// NVLink bridges, "@no-peer" says that no card reaches another's memory over PCIe. A term may also
/// be some of a cluster that ships: "2xDGX-H100".
/// @throws Error{invalid_argument | out_of_range | not_found} naming the term.
Cluster cluster_from_text(std::string_view text, const DataFolders& folders);

/// The device called `name`: its file's name as DataFolders::find matches it, else any usual
/// spelling of a sheet's names, as device_name.h has it. Where several sheets fit, the usual one is
/// taken, and `notes` gets a line that says so. `where` is the option that names it, for the
/// message. @throws Error{not_found} with the nearest names.
Device find_device(const std::string& name, const DataFolders& folders,
                   const std::string& where = {}, std::vector<std::string>* notes = nullptr);

/// Path of the cluster file that find_cluster means by a name; "" where there is none.
std::string cluster_file(const std::string& name, const DataFolders& folders);

/// The cluster file called `name` ("dgx-a100" also means "dgx-a100-80g", "p5.48xlarge" that of
/// AWS), or at the path `name`, where it ends in
/// ".json"; else what looks like a text, and the name of a device, is read by cluster_from_text.
Cluster find_cluster(const std::string& name, const DataFolders& folders,
                     const std::string& where = {});

}  // namespace tessera
