#include "tessera/core/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"

namespace tessera {
namespace {

/// The layers of an engine, one after the other.
void check_layers(const Placement& placement, const PlacedEngine& engine, const std::string& path) {
  std::int64_t next = 0;
  for (std::size_t k = 0; k < engine.stages.size(); ++k) {
    const PlacedStage& stage = engine.stages[k];
    const std::string where = fmt::format("{}.stages[{}]", path, k);
    if (stage.first_layer != next) {
      refuse(where, "starts with layer {}; layer {} of {} comes next", stage.first_layer, next,
             placement.num_layers);
    }
    next += stage.num_layers;
    if (next > placement.num_layers) {
      refuse(where, "holds layers {} to {}, the model has {}", stage.first_layer, next - 1,
             placement.num_layers);
    }
  }
  if (next != placement.num_layers) {
    refuse(path + ".stages", "hold {} of {} layers", next, placement.num_layers);
  }
}

void check_devices(const Placement& placement, const PlacedEngine& engine, const std::string& path,
                   std::set<DevicePlace>& used) {
  for (std::size_t k = 0; k < engine.stages.size(); ++k) {
    const PlacedStage& stage = engine.stages[k];
    const std::string where = fmt::format("{}.stages[{}]", path, k);
    check_record(stage, FieldPath{where});
    if (stage.node_index < 0 || stage.node_index >= std::ssize(placement.nodes)) {
      refuse(where, "is on node {} (0-based), there are {}", stage.node_index,
             placement.nodes.size());
    }
    for (const std::int64_t gpu : stage.gpus) {
      if (used.insert({stage.node_index, gpu}).second) continue;
      refuse(where, "uses GPU {} of node {}, which is taken", gpu,
             quote(placement.nodes[static_cast<std::size_t>(stage.node_index)]));
    }
  }
}

}  // namespace

void Fields<PlacedStage>::check(const S& stage, const FieldPath& path) {
  if (stage.gpus.empty()) refuse(path.record, "is on no device");
  if (std::ssize(stage.bitwidths) != stage.num_layers) {
    refuse(path.record, "{} bitwidths for {} layers", stage.bitwidths.size(), stage.num_layers);
  }
}

void Fields<Placement>::check(const P& placement, const FieldPath& path) {
  std::set<std::string> names;
  for (const std::string& node : placement.nodes) {
    if (!names.insert(node).second) refuse(path("nodes"), "two are called {}", quote(node));
  }
  if (placement.engines.empty()) refuse(path("engines"), "there is none");
  std::set<DevicePlace> used;
  for (std::size_t i = 0; i < placement.engines.size(); ++i) {
    const std::string where = fmt::format("{}[{}]", path("engines"), i);
    check_devices(placement, placement.engines[i], where, used);
    check_layers(placement, placement.engines[i], where);
  }
}

std::string PlacedStage::group_name() const { return tessera::group_name(device, degree()); }

std::vector<DevicePlace> device_places(const Cluster& cluster) {
  std::vector<std::int64_t> counts(cluster.nodes.size(), 0);
  std::vector<DevicePlace> places;
  places.reserve(cluster.devices.size());
  for (const ClusterDevice& slot : cluster.devices) {
    places.push_back({static_cast<std::int64_t>(slot.node_index), counts[slot.node_index]++});
  }
  return places;
}

std::vector<std::vector<std::size_t>> stage_devices(const Placement& placement,
                                                    const PlacedEngine& engine,
                                                    const Cluster& cluster) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> device_at;
  const std::vector<DevicePlace> places = device_places(cluster);
  for (std::size_t i = 0; i < places.size(); ++i) {
    device_at[{cluster.nodes[cluster.devices[i].node_index].name, places[i].gpu}] = i;
  }
  std::vector<std::vector<std::size_t>> devices;
  for (std::size_t k = 0; k < engine.stages.size(); ++k) {
    const PlacedStage& stage = engine.stages[k];
    const std::string& node = placement.nodes.at(static_cast<std::size_t>(stage.node_index));
    std::vector<std::size_t>& members = devices.emplace_back();
    for (const std::int64_t gpu : stage.gpus) {
      const auto it = device_at.find({node, gpu});
      if (it != device_at.end()) members.push_back(it->second);
    }
    const bool are_there = members.size() == stage.gpus.size();
    if (are_there && group_type(cluster, members) == stage.device) continue;
    const std::string found = are_there ? group_name(group_type(cluster, members), stage.degree())
                                        : fmt::format("{} of these", members.size());
    refuse(fmt::format("placement.stages[{}]", k + 1),
           "is on GPU {} of node {}, {}; cluster {} has {} there", fmt::join(stage.gpus, ", "),
           quote(node), stage.group_name(), quote(cluster.name), found);
  }
  return devices;
}

}  // namespace tessera
