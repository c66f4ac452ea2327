#include "tessera/core/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "counted.h"
#include "instances.h"
#include "node_price.h"
#include "tessera/core/cluster_part.h"
#include "tessera/core/device_name.h"
#include "tessera/core/error.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/core/record_json.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

constexpr double kMinGbps = 8e-9;
constexpr double kMaxHostBytes = 1e18;

// Of one type on one node.
bool alike(const ClusterDevice& a, const ClusterDevice& b) {
  return a.node_index == b.node_index && a.device.name == b.device.name;
}

constexpr const char* kBridgedCards =
    "two cards of one type that take an NVLink bridge (nvlink_bridge_bytes_per_s of the device)";

bool takes_bridges(const Cluster& cluster, std::size_t node_index) {
  std::set<std::string_view> types;
  return std::any_of(cluster.devices.begin(), cluster.devices.end(), [&](const auto& slot) {
    return slot.node_index == node_index && slot.device.nvlink_bridge_bytes_per_s &&
           !types.insert(slot.device.name).second;
  });
}

[[noreturn]] void refuse_cluster(const std::string& path, const std::string& problem,
                                 ErrorCode code = ErrorCode::invalid_argument) {
  throw Error(code, path + ": " + problem, path);
}

// What may be written in two units is written once.
void refuse_twice(const std::optional<double>& value, const std::string& path, const char* one,
                  const char* other) {
  if (!value) return;
  refuse_cluster(path, fmt::format("{} and {} say the same thing; keep one", one, other));
}

// Everything of a node but its devices, which the two forms keep in different places.
Node read_node(JsonFields& fields, const std::string& path) {
  Node node;
  read_fields(fields, node);
  if (const auto gib = fields.optional_number("host_memory_gib", 0, kMaxHostBytes / kGiB)) {
    refuse_twice(node.host_memory_bytes, path, "host_memory_bytes", "host_memory_gib");
    node.host_memory_bytes = *gib * kGiB;
  }
  if (const auto gbps = fields.optional_number("nvlink_gbps", kMinGbps, kMaxGbps)) {
    refuse_twice(node.nvlink_bytes_per_s, path, "nvlink_bytes_per_s", "nvlink_gbps");
    node.nvlink_bytes_per_s = *gbps / 8 * 1e9;
  }
  check_record(node, FieldPath{path});
  return node;
}

const Json& array_at(JsonFields& fields, const char* key, std::size_t max_size,
                     const std::string& path) {
  const Json& array = fields.at(key);
  if (!array.is_array() || array.empty()) {
    refuse_cluster(path, fmt::format("{}: a list with at least one entry belongs here", key));
  }
  if (array.size() > max_size) {
    refuse_cluster(path,
                   fmt::format("{}: {} entries, the limit is {}", key, array.size(), max_size),
                   ErrorCode::out_of_range);
  }
  return array;
}

void check_device_count(std::size_t count, const std::string& path) {
  if (count > kMaxClusterDevices) {
    refuse_cluster(path, fmt::format("{} devices, the limit is {}", count, kMaxClusterDevices),
                   ErrorCode::out_of_range);
  }
}

// Looks names up once each: a large cluster repeats them.
class DeviceNames {
 public:
  DeviceNames(const DataFolders& folders, std::vector<std::string>& notes)
      : folders_(folders), notes_(notes) {}

  const Device& find(const std::string& name, const std::string& where) {
    const auto known = devices_.find(name);
    if (known != devices_.end()) return known->second;
    return devices_.emplace(name, find_device(name, folders_, where, &notes_)).first->second;
  }

 private:
  const DataFolders& folders_;
  std::vector<std::string>& notes_;
  std::map<std::string, Device> devices_;
};

Device read_device(const Json& json, const std::string& path, DeviceNames& names) {
  if (json.is_string()) return names.find(json.get<std::string>(), path);
  if (json.is_object()) return device_from_json(json, path);
  refuse_cluster(path, "a device name or an object with a device's fields belongs here");
}

// "T4-16G", ["T4-16G"], ["T4-16G", 3], or with a device object in place of the name.
void read_device_entry(const Json& entry, const std::string& path, std::size_t node_index,
                       DeviceNames& names, Cluster& cluster) {
  std::int64_t count = 1;
  if (entry.is_array()) {
    if (entry.empty() || entry.size() > 2) {
      refuse_cluster(path, "write a device entry as [\"T4-16G\", 3]: a device, then how many");
    }
    if (entry.size() == 2) {
      const Json counted = {{"count", entry[1]}};
      count = JsonFields(counted, path)
                  .integer("count", 1, static_cast<std::int64_t>(kMaxClusterDevices));
    }
  }
  const Device device = read_device(entry.is_array() ? entry[0] : entry, path, names);
  check_device_count(cluster.devices.size() + static_cast<std::size_t>(count), path);
  cluster.devices.insert(cluster.devices.end(), static_cast<std::size_t>(count),
                         ClusterDevice{device, node_index});
}

// "nvlink_pairs": [[0, 1]], by the numbers of the node's devices, which are the last of the
// cluster.
void read_nvlink_pairs(JsonFields& fields, const std::string& path, std::size_t node_index,
                       Cluster& cluster) {
  const Json& pairs = array_at(fields, "nvlink_pairs", kMaxClusterDevices, path);
  const auto first =
      std::find_if(cluster.devices.begin(), cluster.devices.end(),
                   [&](const ClusterDevice& slot) { return slot.node_index == node_index; });
  const auto of_node = static_cast<std::int64_t>(cluster.devices.end() - first);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string where = fmt::format("{}: nvlink_pairs[{}]", path, i);
    if (!pairs[i].is_array() || pairs[i].size() != 2) {
      refuse_cluster(where, "a pair is the numbers of two devices, as in [0, 1]");
    }
    for (const Json& number : pairs[i]) {
      const std::int64_t at = json_integer(number, where, 0, of_node - 1);
      ClusterDevice& slot = *(first + at);
      if (slot.nvlink_pair) {
        refuse_cluster(where, fmt::format("device {} is in a pair already", at));
      }
      if (!slot.device.nvlink_bridge_bytes_per_s && !slot.device.nvlink_bytes_per_s) {
        refuse_cluster(where, fmt::format("device {}, {}, has no NVLink", at, slot.device.name));
      }
      slot.nvlink_pair = static_cast<std::int32_t>(i);
    }
  }
}

// What `detect` found and no sheet describes: [{ "name": "Tesla X1", "count": 2, ... }].
void note_unknown(JsonFields& fields, const std::string& path, std::size_t node_index,
                  Cluster& cluster) {
  const Json& unknown = array_at(fields, "unknown_devices", kMaxClusterDevices, path);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const std::string where = fmt::format("{}: unknown_devices[{}]", path, i);
    JsonFields device(unknown[i], where);
    cluster.notes.push_back(
        fmt::format("node {}: {} x {} left out, which no device sheet describes",
                    cluster.nodes[node_index].name,
                    device.integer("count", 1, static_cast<std::int64_t>(kMaxClusterDevices)),
                    quote(device.text("name"))));
  }
}

void add_node(Node node, const std::string& path, Cluster& cluster) {
  for (const Node& other : cluster.nodes) {
    if (other.name == node.name) {
      refuse_cluster(path, fmt::format("name: two nodes are called {}", quote(node.name)));
    }
  }
  cluster.nodes.push_back(std::move(node));
}

// Nodes with their devices inside: the form for people.
void read_nested_nodes(const Json& nodes, const std::string& path, const DataFolders& folders,
                       Cluster& cluster) {
  DeviceNames names(folders, cluster.notes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string node_path = fmt::format("{}: nodes[{}]", path, i);
    JsonFields fields(nodes[i], node_path);
    add_node(read_node(fields, node_path), node_path, cluster);
    const Json& devices = array_at(fields, "devices", kMaxClusterDevices, node_path);
    for (std::size_t k = 0; k < devices.size(); ++k) {
      read_device_entry(devices[k], fmt::format("{}: devices[{}]", node_path, k), i, names,
                        cluster);
    }
    read_node_price(fields, node_path, i, cluster);
    if (fields.has("unknown_devices")) note_unknown(fields, node_path, i, cluster);
    if (fields.has("nvlink_pairs")) read_nvlink_pairs(fields, node_path, i, cluster);
    fields.finish();
    if (cluster.nodes[i].nvlink_bridges && !takes_bridges(cluster, i)) {
      refuse_cluster(node_path, fmt::format("nvlink_bridges: the node lacks {}", kBridgedCards));
    }
  }
}

// A rate for all nodes gives NVLink to no device that has none.
void set_nvlink_everywhere(double bytes_per_s, Cluster& cluster) {
  std::vector<char> has_nvlink(cluster.nodes.size(), 1);
  for (const ClusterDevice& slot : cluster.devices) {
    if (!slot.device.nvlink_bytes_per_s) has_nvlink[slot.node_index] = 0;
  }
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    Node& node = cluster.nodes[i];
    if (has_nvlink[i] && !node.nvlink_bytes_per_s) node.nvlink_bytes_per_s = bytes_per_s;
  }
}

// Nodes without devices, then every device in full with the name of its node.
void read_flat_nodes(const Json& nodes, const Json& devices, const std::string& path,
                     Cluster& cluster) {
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::string node_path = fmt::format("{}: nodes[{}]", path, i);
    JsonFields fields(nodes[i], node_path);
    add_node(read_node(fields, node_path), node_path, cluster);
    index_of[cluster.nodes.back().name] = i;
    if (fields.has("devices")) {
      refuse_cluster(node_path,
                     "devices: they are listed at the top already; keep one of the two lists");
    }
    fields.finish();
  }
  for (std::size_t k = 0; k < devices.size(); ++k) {
    const std::string device_path = fmt::format("{}: devices[{}]", path, k);
    const std::string node = JsonFields(devices[k], device_path).text("node");
    const auto found = index_of.find(node);
    if (found == index_of.end()) {
      std::vector<std::string> names;
      for (const Node& known : cluster.nodes) names.push_back(known.name);
      refuse_cluster(device_path, fmt::format("node: unknown node {}{}", quote(node),
                                              did_you_mean(node, names)));
    }
    Json device = devices[k];
    device.erase("node");
    std::optional<std::int32_t> pair;
    if (const auto joined = device.find("nvlink_pair"); joined != device.end()) {
      pair = static_cast<std::int32_t>(json_integer(*joined, device_path + ": nvlink_pair", 0,
                                                    static_cast<std::int64_t>(kMaxClusterDevices)));
      device.erase("nvlink_pair");
    }
    cluster.devices.push_back({device_from_json(device, device_path), found->second, pair});
  }
}

}  // namespace

Link Cluster::link(std::size_t from, std::size_t to) const {
  if (from >= devices.size() || to >= devices.size()) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("link({}, {}): the cluster has {} devices, counted from 0", from, to,
                            devices.size()));
  }
  const ClusterDevice& a = devices[from];
  const ClusterDevice& b = devices[to];
  // Data that stays on a device moves at memory speed: a finite number that sums and prints well.
  if (from == to) return {a.device.memory_bytes_per_s, 0, "self"};
  if (a.node_index != b.node_index) {
    return {network_bytes_per_s, network_latency_s, "network"};
  }
  const Node& node = nodes.at(a.node_index);
  if (a.nvlink_pair && a.nvlink_pair == b.nvlink_pair) {
    const auto rate = [](const Device& device) {
      return device.nvlink_bridge_bytes_per_s.value_or(device.nvlink_bytes_per_s.value_or(0));
    };
    return {std::min(rate(a.device), rate(b.device)), intra_node_latency_s, "nvlink"};
  }
  if (node.nvlink && node.nvlink_bytes_per_s) {
    return {*node.nvlink_bytes_per_s, intra_node_latency_s, "nvlink"};
  }
  if (node.nvlink && a.device.nvlink_bytes_per_s && b.device.nvlink_bytes_per_s) {
    return {std::min(*a.device.nvlink_bytes_per_s, *b.device.nvlink_bytes_per_s),
            intra_node_latency_s, "nvlink", joins_by_mesh(a.device)};
  }
  if (bridged(from, to)) {
    return {*a.device.nvlink_bridge_bytes_per_s, intra_node_latency_s, "nvlink"};
  }
  Link pcie{std::min(a.device.pcie_bytes_per_s, b.device.pcie_bytes_per_s), intra_node_latency_s,
            "pcie"};
  pcie.peer_access = node.peer_access.value_or(a.device.peer_access && b.device.peer_access);
  return pcie;
}

bool Cluster::bridged(std::size_t from, std::size_t to) const {
  if (from > to) std::swap(from, to);
  if (from != to && devices[from].nvlink_pair &&
      devices[from].node_index == devices[to].node_index &&
      devices[from].nvlink_pair == devices[to].nvlink_pair) {
    return true;
  }
  if (from == to || !alike(devices[from], devices[to])) return false;
  const Device& device = devices[from].device;
  const Node& node = nodes.at(devices[from].node_index);
  if (!node.nvlink_bridges || !device.nvlink_bridge_bytes_per_s) return false;
  const auto like_it = [&](const ClusterDevice& slot) { return alike(slot, devices[from]); };
  const auto at = [&](std::size_t i) { return devices.begin() + static_cast<std::ptrdiff_t>(i); };
  const bool first_of_pair = std::count_if(devices.begin(), at(from), like_it) % 2 == 0;
  return first_of_pair && std::none_of(at(from + 1), at(to), like_it);
}

void join_by_bridges(Cluster& cluster, const std::string& where) {
  bool any = false;
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    if (takes_bridges(cluster, i)) cluster.nodes[i].nvlink_bridges = any = true;
  }
  if (!any) refuse_cluster(where, std::string("no node has ") + kBridgedCards);
}

void Fields<Node>::check(const Node& node, const FieldPath& path) {
  if (node.name.empty() || node.name.size() > 128) {
    refuse_cluster(path.record, fmt::format("name: {} is no node name; use 1 to 128 characters",
                                            quote(node.name)));
  }
  if (node.nvlink_bridges && (!node.nvlink || node.nvlink_bytes_per_s)) {
    refuse_cluster(path.record, fmt::format("nvlink_bridges joins cards in pairs, and {}; keep one",
                                            node.nvlink ? "nvlink_bytes_per_s joins any two"
                                                        : "nvlink = false leaves only PCIe"));
  }
}

Json to_json(const Cluster& cluster) {
  Json json;
  if (!cluster.name.empty()) json["name"] = cluster.name;
  json["nodes"] = JsonValue<std::vector<Node>>::write(cluster.nodes);
  json["devices"] = Json::array();
  for (const ClusterDevice& slot : cluster.devices) {
    Json item = to_json(slot.device);
    item["node"] = cluster.nodes.at(slot.node_index).name;
    if (slot.nvlink_pair) item["nvlink_pair"] = *slot.nvlink_pair;
    json["devices"].push_back(std::move(item));
  }
  write_fields(cluster, json);
  return json;
}

Cluster cluster_from_json(const Json& json, const std::string& path, const DataFolders& folders) {
  JsonFields fields(json, path);
  Cluster cluster;
  cluster.name = fields.text("name", "");
  const Json& nodes = array_at(fields, "nodes", kMaxClusterDevices, path);
  if (fields.has("devices")) {
    read_flat_nodes(nodes, array_at(fields, "devices", kMaxClusterDevices, path), path, cluster);
  } else {
    read_nested_nodes(nodes, path, folders, cluster);
    const auto nvlink_gbps = fields.optional_number("nvlink_gbps", kMinGbps, kMaxGbps);
    if (nvlink_gbps) set_nvlink_everywhere(*nvlink_gbps / 8 * 1e9, cluster);
  }
  read_fields(fields, cluster);
  if (const auto gbps = fields.optional_number("link_gbps", kMinGbps, kMaxGbps)) {
    if (fields.has("network_bytes_per_s"))
      refuse_twice(*gbps, path, "network_bytes_per_s", "link_gbps");
    cluster.network_bytes_per_s = *gbps / 8 * 1e9;
  }
  fields.finish();
  return cluster;
}

namespace {

/// A count before a device, "(...)", or terms with something between them: no cluster has such a
/// name.
bool looks_like_text(const std::string& name) {
  const std::size_t digits = name.find_first_not_of(" 0123456789");
  if (digits != 0 && digits != std::string::npos &&
      (std::string_view("xX*").find(name[digits]) != std::string_view::npos ||
       name.compare(digits, 2, "\u00d7") == 0)) {
    return true;
  }
  return name.starts_with('(') || name.find_first_of("+,") != std::string::npos;
}

/// "; there is 'L4' (22.49 GiB)", where a device is meant but for its memory; empty: none is.
std::string other_memory(const std::string& name, const DataFolders& folders) {
  try {
    find_device(name, folders);
  } catch (const Error& error) {
    const std::string text = error.message();
    const std::size_t at = text.find("; there is");
    if (at != std::string::npos) return text.substr(at);
  }
  return {};
}

[[noreturn]] void refuse_name(const std::string& name, const DataFolders& folders,
                              const std::string& where) {
  std::vector<std::string> known = folders.list("clusters");
  for (std::string& device : folders.list("devices")) known.push_back(std::move(device));
  const bool near = !nearest_names(name, known).empty();
  if (const std::string there = other_memory(name, folders); !near && !there.empty()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}{}unknown cluster {}{}", where, where.empty() ? "" : ": ",
                            quote(name), there),
                where);
  }
  throw Error(
      ErrorCode::not_found,
      fmt::format("{}{}unknown cluster {}{}; a cluster can also be written out, as in "
                  "'3xT4-16G+1xV100-32G@100Gbps'",
                  where, where.empty() ? "" : ": ", quote(name),
                  near ? did_you_mean(name, known)
                       : ": no device, cluster or cloud instance here is called so (tessera "
                         "help devices; datasets/SOURCES.md tells how to add one)"),
      where);
}

/// What a file of any name holds: a cluster, or what tools printed of one.
Cluster cluster_in_file(const std::string& path, const DataFolders& folders) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    return cluster_from_json(parse_json(text, path), path, folders);
  }
  throw Error(ErrorCode::invalid_argument,
              quote(path) +
                  " is a file that holds no cluster; `tessera detect --out FILE.json` "
                  "writes one, also of what nvidia-smi printed",
              path);
}

}  // namespace

std::string cluster_file(const std::string& name, const DataFolders& folders) {
  std::string own = instance_key(name);
  std::replace(own.begin(), own.end(), ' ', '-');
  if (own.starts_with("nvidia-")) own.erase(0, 7);
  if (own.starts_with("hgx-"))
    own.replace(0, 3, "dgx");  // the board of a DGX, with other hosts around it
  if (own.ends_with("gb")) own.pop_back();
  std::string path = folders.find("clusters", name);
  for (const char* owner : {"", "aws-", "azure-"}) {
    if (path.empty()) path = folders.find("clusters", owner + own);
  }
  for (const char* memory : {"-80g", "-40g"}) {
    if (path.empty()) path = folders.find("clusters", own + memory);
  }
  return path;
}

Cluster find_cluster(const std::string& name, const DataFolders& folders,
                     const std::string& where) {
  const std::string path = cluster_file(name, folders);
  if (!path.empty()) return cluster_from_json(read_json_file(path), path, folders);
  if (name.ends_with(".json")) return cluster_from_json(read_json_file(name), name, folders);
  if (auto instance = find_instance(name, folders)) return *std::move(instance);
  if (looks_like_text(name) || names_device(name, folders) || counts_devices(name, folders)) {
    return cluster_from_text(name, folders);
  }
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) return cluster_in_file(name, folders);
  refuse_name(name, folders, where);
}

std::string describe_devices(const Cluster& cluster, const std::vector<std::size_t>& devices) {
  const auto alike = [&](std::size_t a, std::size_t b) {
    return cluster.devices[a].device.name == cluster.devices[b].device.name &&
           cluster.devices[a].node_index == cluster.devices[b].node_index;
  };
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < devices.size();) {
    std::size_t end = i;
    while (end < devices.size() && alike(devices[end], devices[i])) ++end;
    parts.push_back(fmt::format("{}x{}", end - i, cluster.devices[devices[i]].device.name));
    i = end;
  }
  return join(parts, " + ");
}

Cluster part_of(const Cluster& cluster, const std::vector<std::size_t>& devices) {
  Cluster part = cluster;
  part.devices.clear();
  for (const std::size_t device : devices) part.devices.push_back(cluster.devices[device]);
  part.name = describe_devices(cluster, devices);
  return part;
}

}  // namespace tessera
