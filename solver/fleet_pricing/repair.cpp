#include "tessera/solver/fleet_pricing/repair.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tessera/solver/fleet/check.h"
#include "tessera/solver/fleet/master.h"

namespace tessera::solver {
namespace {

/// The nodes with what is free on them: those of a class with the same left over are a class.
struct Remaining {
  FleetInstance instance;
  std::vector<std::vector<std::int64_t>> nodes;  ///< [class] their numbers in the whole
};

std::map<std::int64_t, DeviceCounts> taken_by(const FleetInstance& instance,
                                              const FleetPlacement& running) {
  std::map<std::int64_t, DeviceCounts> taken;
  for (const Replica& replica : running) {
    const Column& column = instance.columns[replica.column];
    for (const std::int64_t node : replica.nodes) {
      DeviceCounts& own = taken[node];
      for (const auto& [type, count] : column.devices) own[type] += count;
    }
  }
  return taken;
}

Remaining remaining(const FleetInstance& instance, const FleetPlacement& running) {
  Remaining left{instance, {}};
  left.instance.node_classes.clear();
  left.instance.columns.clear();
  left.instance.around.clear();
  const auto taken = taken_by(instance, running);
  std::vector<std::vector<std::size_t>> classes_of;  // [class of the whole]
  std::int64_t first = 0;
  for (const NodeClass& whole : instance.node_classes) {
    std::map<DeviceCounts, std::vector<std::int64_t>> by_devices;
    for (std::int64_t node = first; node < first + whole.count; ++node) {
      DeviceCounts devices = whole.devices;
      const auto used = taken.find(node);
      if (used != taken.end()) {
        for (const auto& [type, count] : used->second) devices[type] -= count;
      }
      std::erase_if(devices, [](const auto& item) { return item.second <= 0; });
      if (!devices.empty()) by_devices[devices].push_back(node);
    }
    first += whole.count;
    std::vector<std::size_t>& own = classes_of.emplace_back();
    for (auto& [devices, nodes] : by_devices) {
      own.push_back(left.nodes.size());
      NodeClass its = whole;
      its.name += " " + std::to_string(left.nodes.size());
      its.count = static_cast<std::int64_t>(nodes.size());
      its.devices = devices;
      left.instance.node_classes.push_back(std::move(its));
      left.nodes.push_back(std::move(nodes));
    }
  }
  for (std::size_t c = 0; c < instance.columns.size(); ++c) {
    const Column& column = instance.columns[c];
    if (column.rate[0] <= 0) continue;
    for (const std::size_t part : classes_of[column.node_class.value_or(0)]) {
      if (column.nodes > 1 && left.instance.node_classes[part].devices !=
                                  instance.node_classes[*column.node_class].devices) {
        continue;
      }
      left.instance.columns.push_back(column);
      left.instance.columns.back().node_class = part;
      left.instance.columns.back().label = std::to_string(c);  // which it is in the whole
    }
  }
  for (std::size_t m = 0; m < instance.models.size(); ++m) {
    double& demand = left.instance.models[m].demand[0];
    for (const Replica& replica : running) {
      const Column& column = instance.columns[replica.column];
      if (column.model == m) demand -= column.rate[0];
    }
    demand = std::max(0.0, demand);
  }
  return left;
}

}  // namespace

std::optional<FleetPlacement> repaired(const FleetInstance& instance, const FleetPlacement& running,
                                       const FleetOptions& options) {
  if (instance.reserve_nodes > 0 || instance.max_usd_per_h || !instance.constraints.empty() ||
      instance.objective == FleetObjective::rate) {
    return std::nullopt;
  }
  const Remaining left = remaining(instance, running);
  FleetMaster master(left.instance);
  const FleetAnswer more = master.solve(options);
  if (!more.objective) return std::nullopt;
  FleetPlacement all = running;
  for (Replica replica : more.placement) {
    const Column& column = left.instance.columns[replica.column];
    std::int64_t first = 0;
    for (std::size_t c = 0; c < *column.node_class; ++c) {
      first += left.instance.node_classes[c].count;
    }
    for (std::int64_t& node : replica.nodes) {
      node = left.nodes[*column.node_class][static_cast<std::size_t>(node - first)];
    }
    replica.column = static_cast<std::size_t>(std::stoull(column.label));
    all.push_back(std::move(replica));
  }
  if (!check_fleet(instance, all).violations.empty()) return std::nullopt;
  return all;
}

}  // namespace tessera::solver
