// Where engines of a shape are put: on random clusters against a slow count, and what has no room.
#include "tessera/solver/serving/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "expect_error.h"
#include "shapes.h"
#include "tessera/core/record_json.h"

namespace tessera::solver::place_test {
namespace {

Cluster random_cluster(std::mt19937& random) {
  const auto below = [&](std::size_t most) { return random() % most; };
  Cluster cluster;
  cluster.name = "random";
  cluster.nodes.resize(1 + below(4));
  for (std::size_t i = 0; i < cluster.nodes.size(); ++i) {
    cluster.nodes[i].name = std::string(1, static_cast<char>('a' + i));
  }
  const std::size_t count = 1 + below(16);
  for (std::size_t i = 0; i < count; ++i) {
    Device device;
    device.name = below(2) == 0 ? "small" : "large";
    if (device.name == "small" && count % 3 == 0) device.backend = "rocm";
    cluster.devices.push_back({device, below(cluster.nodes.size())});
  }
  return cluster;
}

bool is_for(const DeploymentShape& shape, const std::string& type) {
  return shape.devices.empty() || type == shape.devices.front();
}

/// Whether no node has a group of one type.
bool has_unlike_groups(const Cluster& cluster, const DeploymentShape& shape) {
  std::map<std::pair<std::size_t, std::string>, std::int64_t> counts;
  for (const ClusterDevice& slot : cluster.devices) ++counts[{slot.node_index, slot.device.name}];
  return std::none_of(counts.begin(), counts.end(), [&](const auto& of) {
    return is_for(shape, of.first.second) && of.second >= shape.tensor_parallel;
  });
}

/// Engines that fit, counted: whole ones of each node's groups, then what is left over together.
std::int64_t slow_room(const Cluster& cluster, const DeploymentShape& shape) {
  const bool unlike = has_unlike_groups(cluster, shape);
  std::map<std::size_t, std::map<std::string, std::int64_t>> counts;
  for (const ClusterDevice& slot : cluster.devices) {
    if (!is_for(shape, slot.device.name)) continue;
    ++counts[slot.node_index][unlike ? slot.device.backend.value_or("cuda") : slot.device.name];
  }
  std::int64_t engines = 0, rest = 0;
  for (const auto& [node, by_kind] : counts) {
    std::int64_t groups = 0;
    for (const auto& [kind, count] : by_kind) groups += count / shape.tensor_parallel;
    engines += groups / shape.pipeline_parallel;
    rest += groups % shape.pipeline_parallel;
  }
  return engines + rest / shape.pipeline_parallel;
}

void expect_sound(const Placement& placement, const Cluster& cluster,
                  const DeploymentShape& shape) {
  EXPECT_TRUE(from_json<Placement>(json_of(placement), "file") == placement);
  for (const PlacedEngine& engine : placement.engines) {
    EXPECT_EQ(engine.role, shape.role);
    ASSERT_EQ(std::ssize(engine.stages), shape.pipeline_parallel);
    for (const PlacedStage& stage : engine.stages) {
      EXPECT_EQ(stage.degree(), shape.tensor_parallel);
      EXPECT_TRUE(shape.devices.empty() || stage.device == shape.devices.front());
    }
    const bool unlike = has_unlike_groups(cluster, shape);
    for (const auto& members : stage_devices(placement, engine, cluster)) {
      EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
      const ClusterDevice& first = cluster.devices[members.front()];
      for (const std::size_t i : members) {
        EXPECT_EQ(cluster.devices[i].node_index, first.node_index);
        EXPECT_EQ(cluster.devices[i].device.backend, first.device.backend);
        EXPECT_TRUE(unlike || cluster.devices[i].device.name == first.device.name);
      }
    }
  }
}

TEST(Place, FindsAllTheRoomOfRandomClusters) {
  const ModelShape model = test::opt("small", 6, 1024, 16);
  for (std::uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Cluster cluster = random_cluster(random);
    DeploymentShape shape;
    shape.tensor_parallel = std::int64_t{1} << random() % 3;
    shape.pipeline_parallel = 1 + static_cast<std::int64_t>(random() % 3);
    shape.role = random() % 2 == 0 ? EngineRole::mixed : EngineRole::decode;
    if (random() % 2 == 0) shape.devices = {"large"};
    const std::int64_t room = slow_room(cluster, shape);
    EXPECT_EQ(room_for(cluster, shape), room);
    const auto all = try_place(model, cluster, {shape});
    ASSERT_EQ(all.has_value(), room > 0);
    if (!all) continue;
    EXPECT_EQ(std::ssize(all->engines), room);
    expect_sound(*all, cluster, shape);
    shape.replicas = room + 1;
    EXPECT_FALSE(try_place(model, cluster, {shape}));
    shape.replicas = 1 + static_cast<std::int64_t>(random()) % room;
    const auto some = try_place(model, cluster, {shape});
    ASSERT_TRUE(some);
    // Fewer engines are the first of all of them.
    EXPECT_TRUE(std::equal(some->engines.begin(), some->engines.end(), all->engines.begin()));
  }
}

TEST(Place, SplitsLayersAsItIsTold) {
  const ModelShape model = test::opt("small", 6, 1024, 16);
  std::mt19937 random(1);
  Cluster cluster = random_cluster(random);
  while (cluster.devices.size() < 2) cluster = random_cluster(random);
  DeploymentShape shape{.pipeline_parallel = 2, .replicas = 1, .stage_layers = {5, 1}};
  const Placement placement = place(model, cluster, shape);
  EXPECT_EQ(placement.engines[0].stages[0].num_layers, 5);
  EXPECT_EQ(placement.engines[0].stages[1].first_layer, 5);
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{6, 0}, {6}, {3, 2}, {2, 2, 2}}) {
    shape.stage_layers = wrong;
    EXPECT_THROW(try_place(model, cluster, {shape}), Error);
  }
}

TEST(Place, PutsShapesBesideEachOther) {
  const ModelShape model = test::opt("small", 6, 1024, 16);
  std::size_t placed = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Cluster cluster = random_cluster(random);
    const DeploymentShape prefill{.tensor_parallel = 2, .replicas = 1, .role = EngineRole::prefill};
    const DeploymentShape decode{.replicas = 2, .kv_bitwidth = 8, .role = EngineRole::decode};
    const auto both = try_place(model, cluster, {prefill, decode});
    if (!both) continue;
    ++placed;
    EXPECT_TRUE(from_json<Placement>(json_of(*both), "file") == *both);  // no device twice
    ASSERT_EQ(both->engines.size(), 3u);
    EXPECT_EQ(both->engines[2].kv_bitwidth, 8);
  }
  EXPECT_GT(placed, 100u);
}

}  // namespace
}  // namespace tessera::solver::place_test
