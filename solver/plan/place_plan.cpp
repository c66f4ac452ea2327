#include "tessera/solver/plan/place_plan.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

const BatchProblem& batch_of(const PlanSummary& plan) {
  if (const BatchProblem* batch = plan.problem.batch()) return *batch;
  refuse(ErrorCode::unsupported, "plan",
         "the plan of an abstract instance names no model and no devices; give the plan of a model "
         "on a cluster");
}

/// `to_cluster` gives the device of the whole cluster for one of the pipeline's own.
template <class ToCluster>
PlacedEngine engine_of(const PipelinePlan& plan, const Cluster& cluster,
                       const std::vector<DevicePlace>& places, const ToCluster& to_cluster) {
  PlacedEngine engine;
  engine.kv_bitwidth = plan.problem.batch()->kv_bitwidth;
  const std::vector<std::vector<std::size_t>> devices = stage_devices(plan);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& from = plan.stages[k];
    PlacedStage& stage = engine.stages.emplace_back();
    std::vector<std::size_t> members;
    for (const std::size_t device : devices[k]) {
      members.push_back(to_cluster(device));
      stage.gpus.push_back(places.at(members.back()).gpu);
    }
    stage.device = group_type(cluster, members);
    stage.node_index = places[members.front()].node_index;
    stage.first_layer = from.first_layer;
    stage.num_layers = from.num_layers;
    stage.bitwidths = from.bitwidths;
  }
  return engine;
}

/// What `device_of` makes of a replica's devices: those of the whole cluster.
std::size_t device_of(const PipelinePlan& replica, std::size_t r, std::size_t device,
                      std::size_t num_devices) {
  const bool known = replica.devices && device < replica.devices->size();
  const std::int64_t index = known ? (*replica.devices)[device] : -1;
  if (index < 0 || index >= static_cast<std::int64_t>(num_devices)) {
    refuse(fmt::format("plan.replicas[{}].devices", r + 1),
           "name no device of the cluster for device {} of the replica", device);
  }
  return static_cast<std::size_t>(index);
}

std::vector<std::string> node_names(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const Node& node : cluster.nodes) names.push_back(node.name);
  return names;
}

}  // namespace

std::vector<std::vector<std::size_t>> stage_devices(const PipelinePlan& plan) {
  const BatchProblem& batch = batch_of(plan);
  const std::vector<MeshGroup> groups = groups_of(batch);
  const auto members_from = [&](std::int64_t first) -> const std::vector<std::size_t>* {
    for (const MeshGroup& group : groups) {
      for (const auto& members : group.members) {
        if (static_cast<std::int64_t>(members.front()) == first) return &members;
      }
    }
    return nullptr;
  };
  std::vector<std::vector<std::size_t>> devices;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const std::int64_t first = plan.stages[k].device_index;
    const auto* members = members_from(first);
    if (members == nullptr) {
      refuse(fmt::format("plan.stages[{}].device_index", k + 1),
             "no device or tensor-parallel group of the plan's cluster starts at device {}; save "
             "the plan anew",
             first);
    }
    devices.push_back(*members);
  }
  return devices;
}

Placement placement_at(const Plan& plan, std::vector<std::string> nodes,
                       const std::vector<DevicePlace>& places) {
  const BatchProblem& batch = batch_of(summary_of(plan));
  const Cluster& cluster = batch.cluster;
  if (places.size() != cluster.devices.size()) {
    refuse("places", "{} for the {} devices of {}", places.size(), cluster.devices.size(),
           cluster.name);
  }
  Placement placement;
  placement.model = batch.model.name;
  placement.num_layers = batch.model.num_layers;
  placement.nodes = std::move(nodes);
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    placement.engines.push_back(
        engine_of(*pipeline, cluster, places, [](std::size_t device) { return device; }));
  } else {
    const auto& replicas = std::get<ReplicatedPlan>(plan).replicas;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      placement.engines.push_back(engine_of(replicas[r], cluster, places, [&](std::size_t device) {
        return device_of(replicas[r], r, device, places.size());
      }));
    }
  }
  check_record(placement, FieldPath{"plan", "."});
  return placement;
}

Placement placement_of(const Plan& plan) {
  const Cluster& cluster = batch_of(summary_of(plan)).cluster;
  return placement_at(plan, node_names(cluster), device_places(cluster));
}

Placement placement_of(const PipelinePlan& plan) { return placement_of(Plan(plan)); }

}  // namespace tessera::solver
