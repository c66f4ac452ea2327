#include "tessera/solver/fleet_pricing/node_kind.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::solver {
namespace {

/// "4xL4+1xA10G": neighbours of one type are counted.
std::string name_of_devices(const Cluster& node) {
  std::string text;
  for (std::size_t i = 0, next = 0; i < node.devices.size(); i = next) {
    const std::string& type = node.devices[i].device.name;
    for (next = i; next < node.devices.size() && node.devices[next].device.name == type;) ++next;
    text += fmt::format("{}{}x{}", text.empty() ? "" : "+", next - i, type);
  }
  return text;
}

std::optional<double> list_price(const Cluster& node) {
  double sum = 0;
  for (const ClusterDevice& slot : node.devices) {
    if (!slot.device.price_usd_per_h) return std::nullopt;
    sum += *slot.device.price_usd_per_h;
  }
  return sum;
}

/// A node with its devices, as it would stand alone. @param network the cluster without either
Cluster alone(const Cluster& network, const Cluster& cluster, std::size_t node,
              const std::vector<std::size_t>& devices) {
  Cluster one = network;
  one.nodes = {cluster.nodes[node]};
  one.nodes.front().name = "node";
  for (const std::size_t device : devices) {
    one.devices.push_back(cluster.devices[device]);
    one.devices.back().node_index = 0;
  }
  one.name = name_of_devices(one);
  return one;
}

}  // namespace

std::string NodeKind::node_name(std::int64_t index) const {
  if (static_cast<std::size_t>(index) < names.size()) {
    return names[static_cast<std::size_t>(index)];
  }
  return fmt::format("{}-{}", name, index);
}

std::optional<double> NodeKind::device_usd_per_h(std::size_t device) const {
  if (!usd_per_h) return std::nullopt;
  const std::optional<double> all = list_price(*node);
  const auto evenly = *usd_per_h / static_cast<double>(node->devices.size());
  if (!all || *all <= 0) return evenly;
  return *usd_per_h * *node->devices[device].device.price_usd_per_h / *all;
}

void name_apart(std::vector<NodeKind>& kinds) {
  std::set<std::string> names;
  for (NodeKind& kind : kinds) {
    const std::string name = kind.name;
    for (int copy = 2; !names.insert(kind.name).second; ++copy) {
      kind.name = fmt::format("{} ({})", name, copy);
    }
  }
}

std::vector<NodeKind> node_kinds(const Cluster& cluster) {
  std::vector<std::vector<std::size_t>> on_node(cluster.nodes.size());
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    on_node[cluster.devices[i].node_index].push_back(i);
  }
  Cluster network = cluster;
  network.name.clear();
  network.nodes.clear();
  network.devices.clear();
  std::vector<NodeKind> classes;
  std::map<std::string, std::size_t> known;  // by all that tells one from another
  for (std::size_t n = 0; n < on_node.size(); ++n) {
    if (on_node[n].empty()) continue;
    Cluster one = alone(network, cluster, n, on_node[n]);
    const auto [at, is_new] = known.try_emplace(to_json(one).dump(), classes.size());
    if (is_new) {
      const std::string name = one.name;
      const std::optional<double> price = list_price(one);
      classes.push_back({.name = name,
                         .node = std::make_shared<const Cluster>(std::move(one)),
                         .usd_per_h = price});
    }
    NodeKind& its = classes[at->second];
    ++its.count;
    its.names.push_back(cluster.nodes[n].name);
  }
  name_apart(classes);
  return classes;
}

NodeKind node_kind_of(const Cluster& node, std::int64_t count, const std::string& path) {
  std::vector<NodeKind> classes = node_kinds(node);
  if (classes.size() != 1 || classes.front().count != 1) {
    refuse(path, "{} nodes; one belongs here, as \"(4xL4)\"", node.nodes.size());
  }
  classes.front().count = count;
  classes.front().names.clear();
  return std::move(classes.front());
}

Cluster copies_of(const Cluster& node, std::int64_t count) {
  Cluster all = node;
  for (std::int64_t copy = 1; copy < count; ++copy) {
    const std::size_t first = all.nodes.size();
    for (Node each : node.nodes) {
      each.name += fmt::format("-{}", copy);
      all.nodes.push_back(std::move(each));
    }
    for (ClusterDevice device : node.devices) {
      device.node_index += first;
      all.devices.push_back(std::move(device));
    }
  }
  if (count > 1) all.name = fmt::format("{}x({})", count, node.name);
  return all;
}

}  // namespace tessera::solver
