#include "tessera/solver/fleet_pricing/fleet_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

/// The class of a node, and its number among those.
std::pair<std::size_t, std::int64_t> class_of(const PricedFleet& fleet, std::int64_t node) {
  std::size_t at = 0;
  while (at < fleet.nodes.size() && node >= fleet.nodes[at].count) node -= fleet.nodes[at++].count;
  if (at == fleet.nodes.size()) throw Error(ErrorCode::internal, "a placement names no node");
  return {at, node};
}

/// The used nodes side by side, with the devices that are still free on each.
class Nodes {
 public:
  explicit Nodes(const PricedFleet& fleet) : fleet_(fleet) {
    for (const Replica& replica : fleet.answer.placement) {
      for (const std::int64_t node : replica.nodes) index_.emplace(node, 0);
    }
    for (auto& [node, index] : index_) {
      index = layout_.nodes.size();
      add(node);
    }
  }

  /// What the column takes of a node.
  void take(const FleetColumn& column, std::int64_t node, std::vector<std::size_t>& devices,
            std::vector<std::size_t>& prefill_devices) {
    std::vector<std::size_t>& free = free_[index_.at(node)];
    const Cluster& kind = *fleet_.nodes[column.node_class].node;
    for (std::size_t i = 0; i < column.devices.size(); ++i) {
      if (column.devices[i] == 0) continue;
      const std::string& type = kind.devices[i].device.name;
      const auto found = std::find_if(free.begin(), free.end(), [&](std::size_t device) {
        return layout_.cluster.devices[device].device.name == type;
      });
      if (found == free.end()) throw Error(ErrorCode::internal, "a node has too few devices");
      devices.push_back(*found);
      const bool is_prefill = !column.prefill_devices.empty() && column.prefill_devices[i] > 0;
      if (is_prefill) prefill_devices.push_back(*found);
      free.erase(found);
    }
  }

  FleetLayout& layout() { return layout_; }

 private:
  void add(std::int64_t node) {
    const auto [at, number] = class_of(fleet_, node);
    const NodeKind& kind = fleet_.nodes[at];
    Cluster& all = layout_.cluster;
    if (all.nodes.empty()) {
      all = *kind.node;
      all.nodes.clear();
      all.devices.clear();
      all.name = "fleet";
    }
    all.nodes.push_back(kind.node->nodes.front());
    all.nodes.back().name = kind.node_name(number);
    std::vector<std::size_t>& own = free_.emplace_back();
    for (ClusterDevice device : kind.node->devices) {
      own.push_back(all.devices.size());
      device.node_index = all.nodes.size() - 1;
      all.devices.push_back(std::move(device));
    }
    layout_.nodes.push_back(node);
  }

  const PricedFleet& fleet_;
  std::map<std::int64_t, std::size_t> index_;
  std::vector<std::vector<std::size_t>> free_;
  FleetLayout layout_;
};

}  // namespace

std::string node_name(const PricedFleet& fleet, std::int64_t node) {
  const auto [at, number] = class_of(fleet, node);
  return fleet.nodes[at].node_name(number);
}

FleetLayout layout_of(const PricedFleet& fleet) {
  const FleetPlacement& placement = fleet.answer.placement;
  const auto column_of = [&](std::size_t replica) -> const FleetColumn& {
    return fleet.columns->columns()[placement[replica].column];
  };
  const auto size_of = [&](std::size_t replica) {
    const FleetColumn& column = column_of(replica);
    return std::accumulate(column.devices.begin(), column.devices.end(), std::int64_t{0});
  };
  std::vector<std::size_t> order(placement.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  Nodes nodes(fleet);
  nodes.layout().devices.resize(placement.size());
  nodes.layout().prefill_devices.resize(placement.size());
  for (const std::size_t replica : order) {
    std::vector<std::size_t>& devices = nodes.layout().devices[replica];
    std::vector<std::size_t>& prefill_devices = nodes.layout().prefill_devices[replica];
    for (const std::int64_t node : placement[replica].nodes) {
      nodes.take(column_of(replica), node, devices, prefill_devices);
    }
    std::sort(devices.begin(), devices.end());
    std::sort(prefill_devices.begin(), prefill_devices.end());
  }
  return std::move(nodes.layout());
}

std::optional<serving::KvTransfer> transfer_of(const PricedFleet& fleet, const FleetLayout& layout,
                                               std::size_t model) {
  const FleetPlacement& placement = fleet.answer.placement;
  std::vector<std::size_t> used;
  for (std::size_t r = 0; r < placement.size(); ++r) {
    const FleetColumn& column = fleet.columns->columns()[placement[r].column];
    if (column.model != model || layout.prefill_devices[r].empty()) continue;
    used.insert(used.end(), layout.devices[r].begin(), layout.devices[r].end());
  }
  std::optional<Link> slowest;
  for (std::size_t k = 1; k < used.size(); ++k) {
    const Link link = layout.cluster.link(used[0], used[k]);
    if (!slowest || link.bytes_per_s < slowest->bytes_per_s) slowest = link;
  }
  if (!slowest) return std::nullopt;
  const Runtime runtime = fleet.columns->models()[model].serving.runtime;
  return serving::KvTransfer{.bytes_per_s = slowest->bytes_per_s,
                             .latency_s = slowest->latency_s,
                             .per_layer = runtime != Runtime::vllm};
}

}  // namespace tessera::solver
