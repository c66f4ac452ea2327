// Where the layers of plans lie: groups, stages without layers, replicas, parts of a cluster.
#include "tessera/solver/plan/place_plan.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "four_devices.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver::place_plan_test {
namespace {

using tessera::test::four_devices;

/// Two nodes of two V100 each, their devices in turn.
Problem two_nodes() {
  Problem problem = four_devices();
  Cluster& cluster = problem.batch()->cluster;
  cluster.nodes.emplace_back().name = "b";
  for (std::size_t i = 0; i < 4; ++i) cluster.devices[i].node_index = i % 2;
  return problem;
}

PipelinePlan plan_of(Problem problem, Candidate candidate) {
  PlanResult result;
  result.candidate = std::move(candidate);
  return build_plan(LoweredProblem(std::move(problem)), result, "test");
}

TEST(PlacePlan, SaysGroupsNodesAndLayers) {
  Problem problem = two_nodes();
  problem.batch()->mesh = Mesh{{2}, {1, 1}};
  problem.batch()->kv_bitwidth = 8;
  const PipelinePlan plan = plan_of(problem, {{1, 0, 1}, {0, 1, 3, 4}, {0, 1, 1, 0}, 1, 1});
  const Placement placement = placement_of(plan);
  EXPECT_EQ(placement.model, "small");
  EXPECT_EQ(placement.num_layers, 4);
  EXPECT_EQ(placement.nodes, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(placement.engines.size(), 1u);
  EXPECT_EQ(placement.engines[0].kv_bitwidth, 8);
  const std::string name = plan.problem.batch()->cluster.devices[0].device.name;
  const std::vector<PlacedStage> expected{
      {name, 1, {0}, 0, 1, {8}}, {name, 0, {0, 1}, 1, 2, {16, 16}}, {name, 1, {1}, 3, 1, {8}}};
  EXPECT_TRUE(placement.engines[0].stages == expected);
  using Devices = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(stage_devices(plan), (Devices{{1}, {0, 2}, {3}}));
  EXPECT_EQ(stage_devices(placement, placement.engines[0], plan.problem.batch()->cluster),
            stage_devices(plan));
}

TEST(PlacePlan, KeepsStagesWithoutLayers) {
  const Placement placement =
      placement_of(plan_of(four_devices(), {{0, 0, 0}, {0, 2, 2, 4}, {1, 1, 1, 1}, 1, 1}));
  ASSERT_EQ(placement.engines[0].stages.size(), 3u);
  EXPECT_EQ(placement.engines[0].stages[1].num_layers, 0);
  EXPECT_EQ(placement.engines[0].stages[1].gpus, std::vector<std::int64_t>{1});
}

/// Replicas on the first two and the last two devices of two nodes.
Plan replicated() {
  const OpenProblem whole = open_problem(two_nodes(), {});
  std::vector<PipelinePlan> replicas;
  for (const std::vector<std::size_t>& devices : {std::vector<std::size_t>{0, 3}, {1, 2}}) {
    replicas.push_back(plan_of(part_of(whole, devices, 4).first.problem(),
                               {{0, 1}, {0, 2, 4}, {1, 1, 1, 1}, 1, 1}));
    replicas.back().devices.emplace(devices.begin(), devices.end());
  }
  return join_replicas(whole.first.problem(), std::move(replicas), "test");
}

TEST(PlacePlan, OfReplicasSaysWhereTheyAreInTheWholeCluster) {
  const Plan plan = replicated();
  const Placement placement = placement_of(plan);
  ASSERT_EQ(placement.engines.size(), 2u);
  const Cluster& cluster = summary_of(plan).problem.batch()->cluster;
  using Devices = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(stage_devices(placement, placement.engines[0], cluster), (Devices{{0}, {3}}));
  // The part's groups stand in the order of its devices, of which the first is on node b.
  EXPECT_EQ(stage_devices(placement, placement.engines[1], cluster), (Devices{{1}, {2}}));
}

TEST(PlacePlan, CanBePutElsewhere) {
  const PipelinePlan plan = plan_of(four_devices(), {{0, 0}, {0, 1, 4}, {1, 1, 1, 1}, 1, 1});
  const Placement placement = placement_at(plan, {"x", "y"}, {{1, 5}, {0, 2}, {0, 0}, {0, 1}});
  EXPECT_EQ(placement.nodes, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(placement.engines[0].stages[0].node_index, 1);
  EXPECT_EQ(placement.engines[0].stages[0].gpus, std::vector<std::int64_t>{5});
  EXPECT_EQ(placement.engines[0].stages[1].gpus, std::vector<std::int64_t>{2});
  test::expect_error(ErrorCode::invalid_argument, {"places", "1 for the 4 devices"}, [&] {
    placement_at(plan, {"x"}, {{0, 0}});
  });
  test::expect_error(ErrorCode::invalid_argument, {"GPU 0", "taken"}, [&] {
    placement_at(plan, {"x"}, {{0, 0}, {0, 0}, {0, 1}, {0, 2}});
  });
}

TEST(PlacePlan, RefusesBrokenPlans) {
  PipelinePlan plan = plan_of(four_devices(), {{0, 0}, {0, 1, 4}, {1, 1, 1, 1}, 1, 1});
  plan.stages[1].device_index = 9;
  test::expect_error(ErrorCode::invalid_argument, {"plan.stages[2].device_index", "device 9"},
                     [&] { placement_of(plan); });
  plan.stages[1].device_index = 1;
  plan.stages[1].first_layer = 2;
  test::expect_error(ErrorCode::invalid_argument, {"starts with layer 2"},
                     [&] { placement_of(plan); });
  Plan several = replicated();
  std::get<ReplicatedPlan>(several).replicas[1].devices = {1, 44};
  test::expect_error(ErrorCode::invalid_argument, {"plan.replicas[2].devices"},
                     [&] { placement_of(several); });
}

}  // namespace
}  // namespace tessera::solver::place_plan_test
