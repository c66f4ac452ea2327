#include "tessera/solver/serving/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

using Group = std::vector<std::size_t>;  ///< devices of one tensor-parallel group
using Pipeline = std::vector<Group>;

bool is_for(const DeploymentShape& shape, const Device& device) {
  const auto& types = shape.devices;
  return types.empty() || std::find(types.begin(), types.end(), device.name) != types.end();
}

/// Groups of consecutive devices of a kind on a node, by node, of those that are not used.
template <class KindOf>
std::vector<std::vector<Group>> groups_by(const Cluster& cluster, const DeploymentShape& shape,
                                          const std::vector<bool>& used, const KindOf& kind_of) {
  std::vector<std::vector<Group>> by_node(cluster.nodes.size());
  std::map<std::pair<std::size_t, std::string>, Group> open;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    if (used[i] || !is_for(shape, slot.device)) continue;
    Group& group = open[{slot.node_index, kind_of(slot.device)}];
    group.push_back(i);
    if (std::ssize(group) < shape.tensor_parallel) continue;
    by_node[slot.node_index].push_back(std::exchange(group, {}));
  }
  return by_node;
}

/// Of one type, or where no node has as many of one, of unlike ones that share a backend.
std::vector<std::vector<Group>> groups_of(const Cluster& cluster, const DeploymentShape& shape,
                                          const std::vector<bool>& used) {
  auto groups = groups_by(cluster, shape, used, [](const Device& device) { return device.name; });
  const auto is_empty = [](const auto& of_node) { return of_node.empty(); };
  if (!std::all_of(groups.begin(), groups.end(), is_empty)) return groups;
  return groups_by(cluster, shape, used,
                   [](const Device& device) { return device.backend.value_or("cuda"); });
}

/// Pipelines of one node each, then of what these leave over.
std::vector<Pipeline> pipelines_of(const std::vector<std::vector<Group>>& by_node,
                                   std::size_t num_stages) {
  std::vector<Pipeline> pipelines;
  Pipeline rest;
  const auto take = [&](const std::vector<Group>& groups) {
    std::size_t next = 0;
    for (; next + num_stages <= groups.size(); next += num_stages) {
      const auto first = groups.begin() + static_cast<std::ptrdiff_t>(next);
      pipelines.emplace_back(first, first + static_cast<std::ptrdiff_t>(num_stages));
    }
    return next;
  };
  for (const std::vector<Group>& groups : by_node) {
    const std::size_t taken = take(groups);
    rest.insert(rest.end(), groups.begin() + static_cast<std::ptrdiff_t>(taken), groups.end());
  }
  take(rest);
  return pipelines;
}

std::vector<Pipeline> pipelines_on(const Cluster& cluster, const DeploymentShape& shape,
                                   const std::vector<bool>& used) {
  return pipelines_of(groups_of(cluster, shape, used),
                      static_cast<std::size_t>(shape.pipeline_parallel));
}

void check_positive(const DeploymentShape& shape) {
  const auto check = [](std::int64_t value, const char* path) {
    if (value < 1)
      refuse(ErrorCode::out_of_range, path, fmt::format("{}, at least 1 is needed", value));
  };
  check(shape.tensor_parallel, "tensor_parallel");
  check(shape.pipeline_parallel, "pipeline_parallel");
  check(shape.replicas.value_or(1), "replicas");
}

void check_shape(const ModelShape& model, const DeploymentShape& shape) {
  check_positive(shape);
  if (const auto reason = cost::why_not_sharded(model, shape.tensor_parallel, shape.split)) {
    refuse("tensor_parallel", "{}: {}", model.name, *reason);
  }
  if (shape.pipeline_parallel > model.num_layers) {
    refuse("pipeline_parallel", "{} stages for {} layers of {}", shape.pipeline_parallel,
           model.num_layers, model.name);
  }
  if (shape.bitwidths.size() != 1 && std::ssize(shape.bitwidths) != model.num_layers) {
    refuse("bitwidth", "give one for all, or one for each of the {} layers of {}; there are {}",
           model.num_layers, model.name, shape.bitwidths.size());
  }
  const auto& layers = shape.stage_layers;
  const bool is_split =
      std::ssize(layers) == shape.pipeline_parallel &&
      *std::min_element(layers.begin(), layers.end()) >= 1 &&
      std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == model.num_layers;
  if (!layers.empty() && !is_split) {
    refuse("stage_layers", "give {} stages at least a layer each of the {} of {}; there are {}",
           shape.pipeline_parallel, model.num_layers, model.name, fmt::join(layers, ", "));
  }
}

PlacedEngine engine_of(const ModelShape& model, const Cluster& cluster,
                       const std::vector<DevicePlace>& places, const DeploymentShape& shape,
                       const Pipeline& pipeline) {
  PlacedEngine engine;
  engine.role = shape.role;
  engine.kv_bitwidth = shape.kv_bitwidth;
  const auto layers = shape.stage_layers.empty()
                          ? vllm_layer_split(model.num_layers, shape.pipeline_parallel)
                          : shape.stage_layers;
  std::int64_t next = 0;
  for (std::size_t k = 0; k < pipeline.size(); ++k) {
    PlacedStage& stage = engine.stages.emplace_back();
    stage.device = group_type(cluster, pipeline[k]);
    stage.node_index = places[pipeline[k].front()].node_index;
    for (const std::size_t device : pipeline[k]) stage.gpus.push_back(places[device].gpu);
    stage.first_layer = next;
    stage.num_layers = layers[k];
    for (const std::int64_t end = next + layers[k]; next < end; ++next) {
      const bool same = shape.bitwidths.size() == 1;
      stage.bitwidths.push_back(shape.bitwidths[same ? 0 : static_cast<std::size_t>(next)]);
    }
  }
  return engine;
}

}  // namespace

std::vector<std::int64_t> vllm_layer_split(std::int64_t num_layers, std::int64_t num_stages) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(num_stages), num_layers / num_stages);
  for (std::int64_t i = 0; i < num_layers % num_stages; ++i) {
    ++layers[static_cast<std::size_t>(num_stages - 2 - i)];
  }
  return layers;
}

std::optional<Placement> try_place(const ModelShape& model, const Cluster& cluster,
                                   const std::vector<DeploymentShape>& shapes) {
  Placement placement;
  placement.model = model.name;
  placement.num_layers = model.num_layers;
  for (const Node& node : cluster.nodes) placement.nodes.push_back(node.name);
  const std::vector<DevicePlace> places = device_places(cluster);
  std::vector<bool> used(cluster.devices.size(), false);
  for (const DeploymentShape& shape : shapes) {
    check_shape(model, shape);
    const std::vector<Pipeline> pipelines = pipelines_on(cluster, shape, used);
    const std::size_t wanted =
        shape.replicas ? static_cast<std::size_t>(*shape.replicas) : pipelines.size();
    if (wanted == 0 || pipelines.size() < wanted) return std::nullopt;
    for (std::size_t r = 0; r < wanted; ++r) {
      placement.engines.push_back(engine_of(model, cluster, places, shape, pipelines[r]));
      for (const Group& group : pipelines[r]) {
        for (const std::size_t device : group) used[device] = true;
      }
    }
  }
  return placement;
}

Placement place(const ModelShape& model, const Cluster& cluster, const DeploymentShape& shape) {
  if (auto placement = try_place(model, cluster, {shape})) return *std::move(placement);
  const std::int64_t wanted = shape.replicas.value_or(1);
  const std::int64_t degree = shape.tensor_parallel, stages = shape.pipeline_parallel;
  refuse("replicas",
         "{} of tensor_parallel {} x pipeline_parallel {} need {} devices, each group on one node; "
         "the {} devices of {} have room for {}",
         wanted, degree, stages, wanted * degree * stages, cluster.devices.size(), cluster.name,
         room_for(cluster, shape));
}

std::int64_t room_for(const Cluster& cluster, const DeploymentShape& shape) {
  check_positive(shape);
  return std::ssize(pipelines_on(cluster, shape, std::vector<bool>(cluster.devices.size(), false)));
}

}  // namespace tessera::solver
