// What the exact search does where there is nothing to prove, no time, or nobody to wait for it.

#include "tessera/solver/exact/exact_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>

#include "random_instance.h"
#include "tessera/core/json.h"
#include "tessera/solver/instance/instance_file.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::exact_planner_test {
namespace {

void expect_bounded_but_not_proven(const Instance& in, const PlanResult& result) {
  ASSERT_TRUE(result.candidate);
  EXPECT_EQ(result.status, SolveStatus::feasible);
  ASSERT_TRUE(result.bound);
  EXPECT_LT(*result.bound, result.objective);
  EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
  EXPECT_FALSE(result.notes.empty());
}

using instances::RandomInstance;

// Fourteen types of two devices each: 3^14 combinations of devices.
TEST(ExactPlanner, TooManyCombinationsGiveAPlanAndABoundButNoProof) {
  for (const bool subsets : {true, false}) {
    SCOPED_TRACE(subsets);
    Instance in;
    in.bitwidths = {4, 16};
    in.layer_class.assign(40, 0);
    in.layer_bytes = {1e9, 4e9};
    in.batch_size = 8;
    in.output_tokens = 11;
    in.allow_empty_stage = subsets;
    for (int i = 0; i < 40; ++i) in.omega.insert(in.omega.end(), {0.01, 0.0});
    auto table = std::make_shared<std::vector<PhaseCosts>>();
    for (int g = 0; g < 14; ++g) {
      in.groups.push_back({"G" + std::to_string(g), "node", 2, 8e9 + 1e8 * g});
      in.allowed.insert(in.allowed.end(), {1, 1});
    }
    for (int size = 1; size <= 8; ++size) {
      PhaseCosts c;
      for (int g = 0; g < 14; ++g) {
        c.layer_s.insert(c.layer_s.end(), {0.001 * (g + 2) * size, 0.0012 * (g + 2) * size});
      }
      c.first_s.assign(14, 0);
      c.last_s.assign(14, 0);
      c.link_s.assign(14 * 14, 1e-6 * size);
      table->push_back(c);
    }
    in.prefill = in.decode = [table](std::int64_t size) -> const PhaseCosts& {
      return table->at(static_cast<std::size_t>(size - 1));
    };
    PlanRequest request;
    request.time_limit_s = 3;
    request.prefill_micro_batch_size = 1;
    request.decode_micro_batch_size = 2;
    const PlanResult result = make_exact_planner()->plan(in, request);
    expect_bounded_but_not_proven(in, result);
  }
}

// Twelve nodes of two equal devices with links slower than any stage: counts of devices are few,
// orders that links tell apart are not.
TEST(ExactPlanner, SlowLinksBetweenManyNodesAreNotClaimedProven) {
  Instance in;
  in.bitwidths = {4, 16};
  in.layer_class.assign(30, 0);
  in.layer_bytes = {1e9, 4e9};
  in.allowed.assign(24, 1);
  in.batch_size = 4;
  in.output_tokens = 5;
  in.allow_empty_stage = true;
  for (int i = 0; i < 30; ++i) in.omega.insert(in.omega.end(), {0.01, 0.0});
  for (int g = 0; g < 12; ++g) in.groups.push_back({"G", "node" + std::to_string(g), 2, 9e9});
  PhaseCosts costs;
  for (int g = 0; g < 12; ++g) {
    costs.layer_s.insert(costs.layer_s.end(), {0.01, 0.012});
    for (int h = 0; h < 12; ++h) costs.link_s.push_back(g == h ? 0 : 0.5 + 0.1 * ((g + h) % 5));
  }
  costs.first_s.assign(12, 0);
  costs.last_s.assign(12, 0);
  const auto table = std::make_shared<const PhaseCosts>(std::move(costs));
  in.prefill = in.decode = [table](std::int64_t) -> const PhaseCosts& { return *table; };
  PlanRequest request;
  request.time_limit_s = 2;
  const PlanResult result = make_exact_planner()->plan(in, request);
  expect_bounded_but_not_proven(in, result);
}

TEST(ExactPlanner, HopelessRequestsAreRefusedAtOnce) {
  RandomInstance random(7, {12, 4, 4, 8});
  Instance in = random.make();
  for (DeviceGroup& group : in.groups) group.usable_bytes = 1e6;
  const PlanResult result = make_exact_planner()->plan(in, {});
  EXPECT_EQ(result.status, SolveStatus::infeasible);
  ASSERT_TRUE(result.violation);
  EXPECT_FALSE(result.violation->constraint.empty());
}

TEST(ExactPlanner, StopFlagInterrupts) {
  RandomInstance random(5, {12, 4, 4, 8});
  const Instance in = random.make();
  const std::atomic<bool> stop{true};
  PlanRequest request;
  request.stop = &stop;
  const PlanResult result = make_exact_planner()->plan(in, request);
  if (result.violation) return;
  EXPECT_EQ(result.status, SolveStatus::interrupted);
}

TEST(ExactPlanner, ThrowingIncumbentHandlerReachesTheCaller) {
  int thrown = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomInstance random(seed, {10, 4, 4, 8});
    const Instance in = random.make();
    PlanRequest request;
    request.threads = 4;
    request.on_incumbent = [](const Incumbent&) { throw std::runtime_error("from the handler"); };
    try {
      const PlanResult result = make_exact_planner()->plan(in, request);
      EXPECT_FALSE(result.candidate) << "seed " << seed;
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "from the handler");
      ++thrown;
    }
  }
  EXPECT_GE(thrown, 5);
}

}  // namespace
}  // namespace tessera::solver::exact_planner_test
