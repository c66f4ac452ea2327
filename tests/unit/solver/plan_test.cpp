// Plans of one pipeline and of several: what they hold, and their files.
#include "tessera/solver/plan/plan.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "four_devices.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver::plan_test {
namespace {

using tessera::test::four_devices;

PlanResult one_stage(std::int64_t micro_batch_size) {
  PlanResult result;
  result.candidate = Candidate{{0}, {0, 4}, {1, 1, 1, 1}, micro_batch_size, micro_batch_size};
  return result;
}

PipelinePlan on_one_device() {
  return build_plan(LoweredProblem(four_devices()), one_stage(2), "test");
}

/// Two pipelines of two devices, of which one is used; the second has more requests and is slower.
ReplicatedPlan two_replicas() {
  const OpenProblem whole = open_problem(four_devices(), {});
  std::vector<PipelinePlan> replicas;
  replicas.push_back(build_plan(part_of(whole, {0, 1}, 2).first, one_stage(2), "test"));
  replicas.push_back(build_plan(part_of(whole, {2, 3}, 6).first, one_stage(3), "test"));
  replicas[0].devices = {0, 1};
  replicas[1].devices = {2, 3};
  return join_replicas(whole.first.problem(), std::move(replicas), "test");
}

TEST(Plan, HoldsTheProblemItWasMadeOf) {
  const LoweredProblem problem(four_devices());
  const PipelinePlan plan = build_plan(problem, one_stage(2), "test");
  const PipelinePlan copy = plan;
  EXPECT_EQ(&copy.problem.problem(), &problem.problem());
  EXPECT_EQ(&copy.problem.instance(), &problem.instance());
}

TEST(Plan, SharesAndSizesOfReplicasAreTheirOwn) {
  const ReplicatedPlan plan = two_replicas();
  EXPECT_EQ(&plan.slowest(), &plan.replicas[1]);
  EXPECT_EQ(plan.latency_s, plan.replicas[1].latency_s);
  EXPECT_FALSE(check_plan(plan));
}

TEST(PlanFile, ComesBackEqual) {
  for (const Plan& plan : {Plan(on_one_device()), Plan(two_replicas())}) {
    const Json json = to_json(plan);
    const Plan again = plan_from_json(parse_json(json_text(json), "file"), "file");
    EXPECT_TRUE(again == plan);
    EXPECT_EQ(json_text(to_json(again)), json_text(json));
    EXPECT_FALSE(check_plan(again));
  }
}

TEST(PlanFile, OfReplicasShowsTheSlowestOnesSizesAndNoStages) {
  const Json json = to_json(Plan(two_replicas()));
  EXPECT_EQ(json.at("prefill_micro_batch_size"), 3);
  EXPECT_TRUE(json.at("stages").empty());
  EXPECT_TRUE(json.at("device_order").empty());
  EXPECT_EQ(json.at("replicas").size(), 2u);
  EXPECT_EQ(json.at("replicas")[0].at("devices"), (Json{0, 1}));
}

TEST(PlanFile, RefusesReplicasThatAreNone) {
  const Json good = to_json(Plan(two_replicas()));
  const auto refuses = [&](const char* field, const Json& value, const char* reason) {
    Json bad = good;
    bad[field] = value;
    test::expect_error(ErrorCode::invalid_argument, {reason}, [&] { plan_from_json(bad, "file"); });
  };
  refuses("replicas", Json::array(), "give at least one plan");
  refuses("replicas", Json{good}, "a replica has no replicas of its own");
  refuses("stages", good.at("replicas")[0].at("stages"), "has no stages");
  refuses("decode_micro_batch_size", 1, "its micro-batch sizes are 3 and 1");
  refuses("devices", Json{0}, "no devices of its own");
}

TEST(CheckPlan, ComparesEveryNumberOfAStage) {
  const PipelinePlan good = on_one_device();
  ASSERT_FALSE(check_plan(good));
  const auto refuses = [&](auto change, const char* name) {
    PipelinePlan bad = good;
    change(bad);
    const auto violation = check_plan(bad);
    ASSERT_TRUE(violation) << name;
    EXPECT_EQ(violation->constraint, "objective");
    EXPECT_NE(violation->message.find(name), std::string::npos) << violation->message;
  };
  refuses([](PipelinePlan& p) { p.stages[0].prefill_s *= 1.01; }, "prefill_s");
  refuses([](PipelinePlan& p) { p.stages[0].decode_s *= 1.01; }, "decode_s");
  refuses([](PipelinePlan& p) { p.stages[0].memory.reserve_bytes += 1e6; }, "reserve_bytes");
  refuses([](PipelinePlan& p) { p.latency_s *= 2; }, "latency_s");
  refuses([](PipelinePlan& p) { p.bound = 2 * p.objective; }, "bound");
}

}  // namespace
}  // namespace tessera::solver::plan_test
