#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core_lua.h"
#include "tessera/core/cluster_part.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/placement.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/lua_kit/args.h"
#include "tessera/lua_kit/record.h"
#include "tessera/lua_kit/table.h"
#include "tessera/lua_kit/value.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxDevices = 4096;
constexpr double kBytesPerSecondPerGbps = 1e9 / 8;

const OptionTable& cluster_options() {
  static const OptionTable table{
      "ts.cluster",
      "Devices on nodes: a shipped name (\"llmpq-3\"), a file (\"my.json\"), a text "
      "(\"3xT4-16G+1xV100-32G@100Gbps\", also \"3 x T4-16G, 1 x V100-32G\" or a device alone: a "
      "node for each term; \"(2xRTX-3090+1xRTX-4090)\" is one node, \"2x(4xA100-40G)\" two, "
      "\"4xA6000@bridges\" has NVLink bridges), or entries { device, count, node = \"a\" }. "
      "Entries without a node get one each.",
      "tessera.Cluster",
      {{.name = "name", .type = OptionType::text, .doc = "Name to refer to it by"},
       {.name = "link_gbps",
        .doc = "Network between nodes, one direction",
        .unit = "Gb/s",
        .default_text = "100",
        .min = 1e-6,
        .max = 1e6},
       {.name = "nvlink_gbps",
        .doc = "NVLink between any two devices of a node, one direction; default: what they have",
        .unit = "Gb/s",
        .min = 1e-3,
        .max = 1e6},
       {.name = "nvlink",
        .type = OptionType::boolean,
        .doc = "false: devices of a node talk over PCIe although they have NVLink",
        .default_text = "true"},
       {.name = "nvlink_bridges",
        .type = OptionType::boolean,
        .doc = "true: NVLink bridges join the cards of a node that take them, in pairs",
        .default_text = "false"},
       {.name = "peer_access",
        .type = OptionType::boolean,
        .doc = "Whether devices reach each other's memory over PCIe (`nvidia-smi topo -p2p r`); "
               "default: as their sheets have it"},
       {.name = "link_latency_s",
        .doc = "Latency between nodes",
        .unit = "s",
        .default_text = "3e-05",
        .min = 0,
        .max = 10},
       {.name = "host_memory_gib",
        .doc = "Memory of each node",
        .unit = "GiB",
        .min = 0,
        .max = 1e6},
       {.name = "disk_bytes_per_s",
        .doc = "Rate of each node's disk, either direction",
        .unit = "bytes/s",
        .min = 1,
        .max = 1e15},
       {.name = "source", .type = OptionType::text, .doc = "Where the description comes from"}},
      "string"};
  return table;
}

const OptionTable& entry_options() {
  static const OptionTable table{
      "ts.cluster entry",
      "Some devices of one type on one node: { \"T4-16G\", 3, node = \"a\" }.",
      "",
      {{.name = "node",
        .type = OptionType::text,
        .doc = "Node that holds them; default: one of their own"}}};
  return table;
}

/// Reads entry `position` of the array part, which is on top of the stack.
void add_entry(lua_State* L, Cluster& cluster, std::map<std::string, std::size_t>& nodes,
               const Node& model_node, int position) {
  const std::string path = fmt::format("ts.cluster[{}]", position);
  const int index = lua_gettop(L);
  const lua_kit::Options entry(L, index, entry_options(), path,
                               lua_kit::Options::Keys::named_and_positional);
  if (entry.num_positional() < 1 || entry.num_positional() > 2) {
    refuse(path, "write { \"T4-16G\", 3 } or { \"T4-16G\", 3, node = \"a\" }");
  }
  entry.push_positional(1);
  const auto device = core_lua::device_argument(L, -1, path + "[1]");
  lua_pop(L, 1);
  std::int64_t count = 1;
  if (entry.num_positional() == 2) {
    entry.push_positional(2);
    count = lua_kit::check_integer(L, -1, path + "[2]", 1, kMaxDevices, "devices");
    lua_pop(L, 1);
  }
  if (cluster.devices.size() + static_cast<std::size_t>(count) > kMaxDevices) {
    refuse(ErrorCode::out_of_range, path, "more than {} devices", kMaxDevices);
  }
  const std::string name =
      entry.given("node") ? entry.text("node") : fmt::format("node{}", position - 1);
  const auto [it, fresh] = nodes.try_emplace(name, cluster.nodes.size());
  if (fresh) {
    cluster.nodes.push_back(model_node);
    cluster.nodes.back().name = name;
  }
  for (std::int64_t i = 0; i < count; ++i) cluster.devices.push_back({*device, it->second});
}

std::string describe_devices(const Cluster& cluster) {
  std::vector<std::size_t> all(cluster.devices.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return describe_devices(cluster, all);
}

Cluster cluster_from_options(lua_State* L, int index, const std::string& path) {
  const lua_kit::Options options(L, index, cluster_options(), path,
                                 lua_kit::Options::Keys::named_and_positional);
  Cluster cluster;
  Node node;
  node.nvlink = options.boolean("nvlink");
  if (options.given("peer_access")) node.peer_access = options.boolean("peer_access");
  if (options.given("nvlink_gbps"))
    node.nvlink_bytes_per_s = options.number("nvlink_gbps") * kBytesPerSecondPerGbps;
  if (options.given("host_memory_gib"))
    node.host_memory_bytes = options.number("host_memory_gib") * kGiB;
  if (options.given("disk_bytes_per_s")) node.disk_bytes_per_s = options.number("disk_bytes_per_s");
  cluster.network_bytes_per_s = options.number("link_gbps") * kBytesPerSecondPerGbps;
  cluster.network_latency_s = options.number("link_latency_s");
  if (options.given("source")) cluster.source = options.text("source");
  std::map<std::string, std::size_t> nodes;
  for (int i = 1; i <= options.num_positional(); ++i) {
    options.push_positional(i);
    add_entry(L, cluster, nodes, node, i);
    lua_pop(L, 1);
  }
  if (cluster.devices.empty()) {
    refuse(path, "no devices; write { { \"T4-16G\", 3 }, { \"V100-32G\", 1 } }");
  }
  if (options.boolean("nvlink_bridges")) join_by_bridges(cluster, path);
  for (const Node& each : cluster.nodes) check_record(each, FieldPath{path});
  cluster.name = options.given("name") ? options.text("name") : describe_devices(cluster);
  return cluster;
}

int link(lua_State* L) {
  const auto& cluster = *lua_kit::check_object<Cluster>(L, 1, "cluster");
  const double last = static_cast<double>(cluster.devices.size()) - 1;
  const auto from =
      lua_kit::check_integer(L, 2, "cluster:link from (0-based device index)", 0, last);
  const auto to = lua_kit::check_integer(L, 3, "cluster:link to (0-based device index)", 0, last);
  const Link found = cluster.link(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
  const Node& node = cluster.nodes[cluster.devices[static_cast<std::size_t>(from)].node_index];
  lua_createtable(L, 0, 5);
  lua_kit::set_number(L, "bytes_per_s", found.bytes_per_s);
  lua_kit::set_number(L, "latency_s", found.latency_s);
  lua_kit::set_text(L, "kind", found.kind);
  lua_kit::set_boolean(L, "peer_access", found.peer_access);
  lua_kit::set_boolean(L, "peer_access_by_sheet", !node.peer_access.has_value());
  return 1;
}

std::string describe_link(const Cluster& cluster, std::size_t a, std::size_t b) {
  const Link link = cluster.link(a, b);
  return fmt::format("{} {:g} GB/s{}{}", link.mesh ? "Infinity Fabric" : link.kind,
                     link.bytes_per_s / 1e9, cluster.bridged(a, b) ? " in pairs" : "",
                     link.peer_access ? "" : " by way of the host's memory");
}

bool lacks_bridges(const Cluster& cluster, std::size_t device) {
  const ClusterDevice& slot = cluster.devices[device];
  const Node& node = cluster.nodes[slot.node_index];
  return slot.device.nvlink_bridge_bytes_per_s && !node.nvlink_bridges && !node.nvlink_bytes_per_s;
}

// "2xA100-40G over nvlink 300 GB/s": the devices of a node, and each kind of link between them.
std::string describe_node(const Cluster& cluster, const std::vector<std::size_t>& devices) {
  std::map<std::string_view, int> seen;  // three of a type show the links of all
  std::vector<std::size_t> few;
  bool may_be_bridged = false;
  for (const std::size_t i : devices) {
    if (++seen[cluster.devices[i].device.name] <= 3) few.push_back(i);
    may_be_bridged |= seen[cluster.devices[i].device.name] > 1 && lacks_bridges(cluster, i);
  }
  std::vector<std::string> links;
  for (std::size_t a = 0; a < few.size(); ++a) {
    for (std::size_t b = a + 1; b < few.size(); ++b) {
      std::string text = describe_link(cluster, few[a], few[b]);
      if (std::find(links.begin(), links.end(), text) == links.end())
        links.push_back(std::move(text));
    }
  }
  const std::string names = describe_devices(cluster, devices);
  if (links.empty()) return names;
  return names + " over " + join(links, " and ") + (may_be_bridged ? ", no NVLink bridges" : "");
}

// "a: 2xT4-16G over pcie 15.75 GB/s; b: 1xL4; between nodes 10 Gb/s". Nodes alike are counted.
std::string describe_topology(const Cluster& cluster) {
  std::vector<std::vector<std::size_t>> devices(cluster.nodes.size());
  for (std::size_t i = 0; i < cluster.devices.size(); ++i)
    devices[cluster.devices[i].node_index].push_back(i);
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    const std::string text = describe_node(cluster, devices[node]);
    auto known = std::find_if(kinds.begin(), kinds.end(),
                              [&](const auto& kind) { return kind.first == text; });
    if (known == kinds.end()) known = kinds.insert(kinds.end(), {text, {}});
    known->second.push_back(cluster.nodes[node].name);
  }
  std::vector<std::string> parts;
  for (const auto& [text, names] : kinds) {
    parts.push_back(names.size() == 1 ? names.front() + ": " + text
                                      : fmt::format("{} nodes of {}", names.size(), text));
  }
  if (cluster.nodes.size() > 1) {
    parts.push_back(fmt::format("between nodes {:g} Gb/s",
                                cluster.network_bytes_per_s / kBytesPerSecondPerGbps));
  }
  return join(parts, "; ");
}

int topology(lua_State* L) {
  lua_kit::push_text(L, describe_topology(*lua_kit::check_object<Cluster>(L, 1, "cluster")));
  return 1;
}

/// cluster:part { 0, 1, 5 }: the same nodes and links with some of the devices.
int part(lua_State* L) {
  const auto& cluster = *lua_kit::check_object<Cluster>(L, 1, "cluster");
  std::vector<std::size_t> devices;
  const double last = static_cast<double>(cluster.devices.size()) - 1;
  double before = -1;
  lua_kit::for_each_item(L, 2, "cluster:part", [&](std::size_t, const std::string& item) {
    const std::int64_t index = lua_kit::check_integer(L, -1, item, before + 1, last);
    before = static_cast<double>(index);
    devices.push_back(static_cast<std::size_t>(index));
  });
  if (devices.empty()) refuse("cluster:part", "no devices; give indices from 0, ascending");
  lua_kit::push_object<Cluster>(L, std::make_shared<Cluster>(part_of(cluster, devices)));
  return 1;
}

int node_indices(lua_State* L) {
  const auto& cluster = *lua_kit::check_object<Cluster>(L, 1, "cluster");
  std::vector<double> nodes;
  for (const ClusterDevice& slot : cluster.devices) {
    nodes.push_back(static_cast<double>(slot.node_index));
  }
  lua_kit::push_numbers(L, nodes);
  return 1;
}

int places(lua_State* L) {
  lua_kit::push_value(L, device_places(*lua_kit::check_object<Cluster>(L, 1, "cluster")));
  return 1;
}

/// cluster:priced("A100", 1.29): a type's price is this.
int priced(lua_State* L) {
  const auto& cluster = *lua_kit::check_object<Cluster>(L, 1, "cluster");
  const std::string name = lua_kit::check_text(L, 2, "device");
  const double usd_per_h = lua_kit::check_number(L, 3, "price", 0, 1e6, "USD/h");
  const std::string device =
      find_device(name, core_lua::environment(L).folders, "cluster:priced").name;
  auto result = std::make_shared<Cluster>(cluster);
  bool found = false;
  for (ClusterDevice& slot : result->devices) {
    if (slot.device.name != device) continue;
    found = true;
    slot.device.price_usd_per_h = usd_per_h;
    slot.device.price_source = "as given";
  }
  if (!found) refuse(ErrorCode::not_found, "cluster:priced", "the cluster has no " + device);
  lua_kit::push_object<Cluster>(L, std::move(result));
  return 1;
}

int notes(lua_State* L) {
  lua_kit::push_texts(L, lua_kit::check_object<Cluster>(L, 1, "cluster")->notes);
  return 1;
}

std::string summary(const Cluster& c) {
  return fmt::format("cluster {}: {}, {} node{}, network {:.0f} Gb/s", c.name, describe_devices(c),
                     c.nodes.size(), c.nodes.size() == 1 ? "" : "s",
                     c.network_bytes_per_s / kBytesPerSecondPerGbps);
}

}  // namespace

/// A slot of a cluster is the device in it.
template <>
struct lua_kit::ScriptValue<ClusterDevice> {
  static std::string type() { return "tessera.Device"; }
  static void push(lua_State* L, const ClusterDevice& slot) {
    push_object<Device>(L, std::make_shared<Device>(slot.device));
  }
};

template <>
const lua_kit::ObjectType<Cluster>& lua_kit::object_type<Cluster>() {
  static const ObjectType<Cluster> type{
      .name = "tessera.Cluster",
      .doc = "Devices on nodes, and what connects them.",
      .fields = fields_of<Cluster>(),
      .methods =
          {{"link", guarded<link>, "(from: integer, to: integer): table",
            "bytes_per_s, latency_s and kind of the link between two devices (0-based indices); "
            "peer_access: false where what goes over PCIe passes the host's memory; "
            "peer_access_by_sheet: whether only sheets say so"},
           {"part", lua_kit::guarded<part>, "(devices: integer[]): tessera.Cluster",
            "The same nodes and links with some of the devices: their indices (0-based), "
            "ascending"},
           {"node_indices", lua_kit::guarded<node_indices>, "(): integer[]",
            "The node of each device (0-based)"},
           {"places", lua_kit::guarded<places>, "(): table[]",
            "Of each device its node_index and gpu, its number among the node's devices (0-based)"},
           {"priced", lua_kit::guarded<priced>,
            "(device: string, usd_per_h: number): tessera.Cluster",
            "The same with another price of one device type"},
           {"notes", lua_kit::guarded<notes>, "(): string[]",
            "Which sheet was taken for a name that fits several, and what has none"},
           {"topology", lua_kit::guarded<topology>, "(): string",
            "The nodes, their devices, and the links within and between them"}},
      .summary = summary,
      .describe = [](const Cluster& c) { return summary(c) + "\n  " + describe_topology(c); }};
  return type;
}

namespace core_lua {

std::shared_ptr<const Cluster> cluster_argument(lua_State* L, int index, const std::string& path) {
  if (const auto* held = lua_kit::test_object<Cluster>(L, index)) return *held;
  if (lua_type(L, index) == LUA_TSTRING) {
    return std::make_shared<Cluster>(
        find_cluster(lua_kit::check_text(L, index, path), environment(L).folders, path));
  }
  return std::make_shared<Cluster>(cluster_from_options(L, index, path));
}

int new_cluster(lua_State* L) {
  lua_kit::push_object<Cluster>(L, cluster_argument(L, 1, "ts.cluster"));
  return 1;
}

/// cluster_from_json(text, path): what a cluster file with this text is; `path` is named in errors.
int cluster_of_text(lua_State* L) {
  const std::string path = lua_kit::check_text(L, 2, "path");
  const Json json = parse_json(lua_kit::check_text(L, 1, "text"), path);
  lua_kit::push_object<Cluster>(
      L, std::make_shared<Cluster>(cluster_from_json(json, path, environment(L).folders)));
  return 1;
}

void register_cluster(lua_State* L) {
  lua_kit::register_object<Cluster>(L);
  environment(L).reference.add_object<Cluster>();
  environment(L).reference.add(cluster_options());
}

}  // namespace core_lua
}  // namespace tessera
