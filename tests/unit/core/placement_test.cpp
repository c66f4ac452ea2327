// Where layers lie: what a placement has to say, and what it may not.
#include "tessera/core/placement.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "tessera/core/device_group.h"
#include "tessera/core/record_json.h"

namespace tessera::placement_test {
namespace {

using test::expect_error;

/// Two stages on two nodes, the first a group of two, beside a second engine.
Placement two_engines() {
  Placement placement{.model = "small", .num_layers = 3, .nodes = {"a", "b"}, .engines = {}};
  PlacedEngine& first = placement.engines.emplace_back();
  first.stages.push_back({"T4-16G", 0, {1, 0}, 0, 2, {8, 4}});
  first.stages.push_back({"L4", 1, {0}, 2, 1, {16}});
  PlacedEngine& second = placement.engines.emplace_back();
  second.role = EngineRole::decode;
  second.kv_bitwidth = 8;
  second.stages.push_back({"L4", 1, {2}, 0, 3, {4, 4, 4}});
  return placement;
}

Placement read_back(const Placement& placement) {
  return from_json<Placement>(json_of(placement), "file");
}

TEST(Placement, ComesBackEqual) {
  EXPECT_TRUE(read_back(two_engines()) == two_engines());
  EXPECT_EQ(json_of(two_engines()).at("engines")[0].at("stages")[0], (Json{{"device", "T4-16G"},
                                                                           {"node_index", 0},
                                                                           {"gpus", {1, 0}},
                                                                           {"first_layer", 0},
                                                                           {"num_layers", 2},
                                                                           {"bitwidths", {8, 4}}}));
}

TEST(Placement, RefusesWhatIsNoPlacement) {
  const auto refuses = [](const auto& change, const std::string& where, const std::string& what) {
    Placement placement = two_engines();
    change(placement);
    expect_error(ErrorCode::invalid_argument, {where, what}, [&] { read_back(placement); });
  };
  const auto stage = [](Placement& p) -> PlacedStage& { return p.engines[0].stages[1]; };
  refuses([](Placement& p) { p.engines.clear(); }, "file: engines", "none");
  refuses([](Placement& p) { p.nodes[1] = "a"; }, "file: nodes", "two are called 'a'");
  refuses([&](Placement& p) { stage(p).first_layer = 1; }, "engines[0].stages[1]",
          "starts with layer 1; layer 2 of 3 comes next");
  refuses(
      [&](Placement& p) {
        stage(p).bitwidths = {16, 16};
      },
      "stages[1]", "2 bitwidths for 1 layers");
  refuses([&](Placement& p) { stage(p).gpus.clear(); }, "stages[1]", "no device");
  refuses([&](Placement& p) { stage(p).node_index = 2; }, "engines[0].stages[1]", "node 2");
  refuses([&](Placement& p) { stage(p).gpus = {2}; }, "engines[1].stages[0]",
          "GPU 2 of node 'b', which is taken");
  refuses([&](Placement& p) { stage(p).gpus = {1, 1}; }, "engines[0].stages[1]", "taken");
  refuses([](Placement& p) { p.engines[0].stages.pop_back(); }, "engines[0].stages",
          "hold 2 of 3 layers");
  refuses([](Placement& p) { p.num_layers = 2; }, "engines[0].stages[1]", "the model has 2");
}

TEST(Placement, KeepsStagesWithoutLayers) {
  Placement placement = two_engines();
  std::vector<PlacedStage>& stages = placement.engines[0].stages;
  stages.insert(stages.begin() + 1, {"L4", 1, {1}, 2, 0, {}});
  EXPECT_TRUE(read_back(placement) == placement);
}

Device device_called(const std::string& name) {
  Device device;
  device.name = name;
  return device;
}

/// A T4 on each of two nodes in turn, and L4s on the second.
Cluster cluster() {
  Cluster cluster;
  cluster.name = "test";
  cluster.nodes.resize(2);
  cluster.nodes[0].name = "b";
  cluster.nodes[1].name = "a";
  for (const std::size_t node : {1u, 0u, 1u}) {
    cluster.devices.push_back({device_called("T4-16G"), node});
  }
  for (int i = 0; i < 2; ++i) cluster.devices.push_back({device_called("L4"), 0});
  return cluster;
}

TEST(DevicePlaces, NumberTheDevicesOfANode) {
  const std::vector<DevicePlace> expected{{1, 0}, {0, 0}, {1, 1}, {0, 1}, {0, 2}};
  EXPECT_EQ(device_places(cluster()), expected);
}

TEST(StageDevices, GoByNodeNamesAndGpus) {
  const Placement placement = two_engines();  // its nodes are in another order
  Placement placed = placement;
  placed.engines[0].stages[1].gpus = {1};
  using Devices = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(stage_devices(placed, placed.engines[0], cluster()), (Devices{{2, 0}, {3}}));
  EXPECT_EQ(stage_devices(placed, placed.engines[1], cluster()), (Devices{{4}}));
  expect_error(ErrorCode::invalid_argument, {"stages[2]", "GPU 0 of node 'b', L4;", "T4-16G"},
               [&] { stage_devices(placement, placement.engines[0], cluster()); });
  placed.engines[0].stages[1].gpus = {7};
  expect_error(ErrorCode::invalid_argument, {"stages[2]", "GPU 7", "0 of these there"},
               [&] { stage_devices(placed, placed.engines[0], cluster()); });
}

TEST(StageDevices, MayBeUnlikeInAGroup) {
  Placement placed = two_engines();
  placed.engines.pop_back();
  placed.engines[0].stages = {{"T4-16G+2xL4", 1, {0, 1, 2}, 0, 3, {4, 4, 4}}};
  EXPECT_EQ(placed.engines[0].stages[0].group_name(), "T4-16G+2xL4");
  using Devices = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(stage_devices(placed, placed.engines[0], cluster()), (Devices{{1, 3, 4}}));
  placed.engines[0].stages[0].gpus = {1, 0, 2};
  expect_error(ErrorCode::invalid_argument,
               {"GPU 1, 0, 2 of node 'b', T4-16G+2xL4;", "has L4+T4-16G+L4 there"},
               [&] { stage_devices(placed, placed.engines[0], cluster()); });
}

TEST(DeviceGroup, IsNamedByItsDevicesInOrder) {
  const Cluster of = cluster();
  const auto name = [&](const std::vector<std::size_t>& members) {
    return group_name(group_type(of, members), std::ssize(members));
  };
  EXPECT_EQ(name({0}), "T4-16G");
  EXPECT_EQ(name({0, 2}), "2xT4-16G");
  EXPECT_EQ(name({1, 3, 4}), "T4-16G+2xL4");
  EXPECT_EQ(name({3, 1, 4}), "L4+T4-16G+L4");
  EXPECT_EQ(one_of_each_type(of, {3, 1, 4}), (std::vector<std::size_t>{3, 1}));
  EXPECT_EQ(types_in("T4-16G"), (std::vector<std::string>{"T4-16G"}));
  EXPECT_EQ(types_in("10xL4+T4-16G+L4"), (std::vector<std::string>{"L4", "T4-16G"}));
}

}  // namespace
}  // namespace tessera::placement_test
