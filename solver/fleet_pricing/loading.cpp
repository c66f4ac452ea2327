#include "tessera/solver/fleet_pricing/loading.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/solver/fleet_pricing/fleet_layout.h"
#include "tessera/solver/replan/replan.h"
#include "tessera/solver/serving/kv_capacity.h"

namespace tessera::solver {

namespace {

class Loading {
 public:
  explicit Loading(const PricedFleet& fleet) : fleet_(fleet) {}

  void add(const Replica& replica) {
    const FleetColumn& column = fleet_.columns->columns()[replica.column];
    const FleetEngine& kind = fleet_.columns->engine_of(column);
    if (kind.is_given()) return;  // nobody knows its weights
    for (const DeploymentPart& part : kind.parts()) add(replica, column, part);
  }

  FleetLoading result() {
    for (const auto& [node, seconds] : disk_s_) {
      loading_.seconds = std::max(loading_.seconds, seconds);
      if (fleet_.nodes[class_of_[node]].node->nodes.front().disk_bytes_per_s) continue;
      loading_.nodes_with_assumed_disk.push_back(node_name(fleet_, node));
    }
    return std::move(loading_);
  }

 private:
  void add(const Replica& replica, const FleetColumn& column, const DeploymentPart& part) {
    const AssembledDeployment& one = *part.engine->one;
    const PricedEngine engine(*one.context, *one.placement, one.placement->engines.front());
    for (const cost::Stage& stage : engine.stages) {
      const ClusterDevice& device = engine.context.cluster.devices[stage.members.front()];
      // Replicas over whole nodes are on as many of their own cluster, in the same order.
      const std::size_t at = column.nodes > 1 ? device.node_index : 0;
      const std::int64_t node = replica.nodes[at];
      const double disk =
          fleet_.nodes[column.node_class].node->nodes.front().disk_bytes_per_s.value_or(
              kAssumedDiskBytesPerS);
      const double bytes = stage_weight_bytes(engine.context, stage);
      const double device_s = bytes / std::min(disk, device.device.pcie_bytes_per_s);
      disk_s_[node] += bytes * static_cast<double>(stage.degree() * part.count) / disk;
      class_of_[node] = column.node_class;
      loading_.seconds = std::max(loading_.seconds, device_s);
    }
  }

  const PricedFleet& fleet_;
  FleetLoading loading_;
  std::map<std::int64_t, double> disk_s_;  // by node
  std::map<std::int64_t, std::size_t> class_of_;
};

}  // namespace

FleetLoading loading_of(const PricedFleet& fleet, const FleetPlacement& starts) {
  Loading loading(fleet);
  for (const Replica& replica : starts) loading.add(replica);
  return loading.result();
}

}  // namespace tessera::solver
