#include "tessera/solver/fleet_pricing/loading.h"

#include <algorithm>
#include <map>

#include "tessera/solver/fleet_pricing/fleet_layout.h"
#include "tessera/solver/replan/replan.h"
#include "tessera/solver/serving/kv_capacity.h"

namespace tessera::solver {

FleetLoading loading_of(const PricedFleet& fleet, const FleetPlacement& starts) {
  FleetLoading loading;
  std::map<std::int64_t, double> disk_s;  // by node
  std::map<std::int64_t, std::size_t> class_of;
  for (const Replica& replica : starts) {
    const FleetColumn& column = fleet.columns->columns()[replica.column];
    if (fleet.columns->engine_of(column).is_given()) continue;  // nobody knows its weights
    const AssembledDeployment& one = *fleet.columns->engine_of(column).configuration().one;
    const PricedEngine engine(*one.context, *one.placement, one.placement->engines.front());
    for (const cost::Stage& stage : engine.stages) {
      const ClusterDevice& device = engine.context.cluster.devices[stage.members.front()];
      // Replicas over whole nodes are on as many of their own cluster, in the same order.
      const std::size_t at = column.nodes > 1 ? device.node_index : 0;
      const std::int64_t node = replica.nodes[at];
      const double disk =
          fleet.nodes[column.node_class].node->nodes.front().disk_bytes_per_s.value_or(
              kAssumedDiskBytesPerS);
      const double bytes = stage_weight_bytes(engine.context, stage);
      const double device_s = bytes / std::min(disk, device.device.pcie_bytes_per_s);
      disk_s[node] += bytes * static_cast<double>(stage.degree()) / disk;
      class_of[node] = column.node_class;
      loading.seconds = std::max(loading.seconds, device_s);
    }
  }
  for (const auto& [node, seconds] : disk_s) {
    loading.seconds = std::max(loading.seconds, seconds);
    if (fleet.nodes[class_of[node]].node->nodes.front().disk_bytes_per_s) continue;
    loading.nodes_with_assumed_disk.push_back(node_name(fleet, node));
  }
  return loading;
}

}  // namespace tessera::solver
