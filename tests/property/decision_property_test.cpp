// Mix bounds, replanning and what-ifs on random tiny instances.

#include <gtest/gtest.h>

#include <cmath>

#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/instance/mix_bound.h"
#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/plan/binding.h"
#include "tessera/solver/plan/what_if.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver::decision_property_test {
namespace {

using instances::RandomInstance;

PlanResult solve(const Instance& in) { return make_exact_planner()->plan(in, {}); }

TEST(MixBoundProperty, NoPlanIsFaster) {
  int plans = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance in = RandomInstance(seed, {}).make();
    in.objective = Objective::steady;
    in.theta = 0;
    in.allow_empty_stage = false;
    const PlanResult best = solve(in);
    std::vector<std::int64_t> counts;
    for (const DeviceGroup& group : in.groups) counts.push_back(group.count);
    const double bound = MixBound(in).latency_s(counts);
    if (!best.candidate) continue;
    ++plans;
    EXPECT_LE(bound, evaluate(in, *best.candidate).latency_s);
    EXPECT_GT(bound, 0);
  }
  EXPECT_GE(plans, 50);
}

// Priced quality, devices that may be left out, floors; and shares of the requests.
TEST(MixBoundProperty, NoPlanHasALowerObjective) {
  int plans = 0, near = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance in = RandomInstance(seed, {}).make();
    in.objective = Objective::steady;
    std::vector<std::int64_t> counts;
    for (const DeviceGroup& group : in.groups) counts.push_back(group.count);
    const MixBound bound(in, &in);
    for (const std::int64_t share : {in.batch_size, (in.batch_size + 1) / 2}) {
      Instance of_share = in;  // which holds as many bytes, as the bound was told
      of_share.batch_size = share;
      const PlanResult best = solve(of_share);
      const double least = bound.objective(counts, share);
      EXPECT_FALSE(std::isnan(least));
      if (!best.candidate) continue;
      ++plans;
      EXPECT_LE(least, best.objective + 1e-9 * std::fabs(best.objective)) << "share " << share;
      if (least >= 0.7 * best.objective) ++near;
    }
  }
  EXPECT_GE(plans, 100);
  EXPECT_GE(near, plans / 4);  // a bound that is far below tells nothing
}

TEST(WhatIfProperty, MoreMemoryIsNeverWorse) {
  int better = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Instance in = RandomInstance(seed, {}).make();
    const PlanResult before = solve(in);
    for (DeviceGroup& group : in.groups) group.usable_bytes *= 1.3;
    const PlanResult after = solve(in);
    if (!before.candidate) continue;
    ASSERT_TRUE(after.candidate);
    EXPECT_LE(after.objective, before.objective + 1e-8 * std::fabs(before.objective));
    if (after.objective < before.objective * (1 - 1e-6)) ++better;
  }
  EXPECT_GE(better, 10);
}

TEST(BindingProperty, EveryPlanIsHeldBackBySomething) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance in = RandomInstance(seed, {}).make();
    const PlanResult best = solve(in);
    if (!best.candidate) continue;
    for (const Binding& b : find_bindings(in, *best.candidate)) {
      EXPECT_FALSE(b.text.empty());
      if (b.stage) {
        EXPECT_LT(*b.stage, best.candidate->order.size());
      }
      if (b.kind == "memory") {
        EXPECT_LE(b.used_ratio, 1 + 1e-9);
      }
    }
  }
}

std::vector<Holding> holdings_of(const Instance& in, const Candidate& plan) {
  std::vector<Holding> holdings;
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    const DeviceGroup& group = in.groups[plan.order[k]];
    Holding holding{group.name, group.node, plan.first_layer[k],
                    {},         k == 0,     k + 1 == plan.order.size()};
    for (std::size_t i = plan.first_layer[k]; i < plan.first_layer[k + 1]; ++i) {
      holding.bitwidths.push_back(in.bitwidths[plan.bit[i]]);
    }
    holdings.push_back(holding);
  }
  return holdings;
}

// One device goes or comes: the answer fits, is good enough, and loads no more than the optimum.
TEST(ReplanProperty, FitsAndMovesNoMoreThanTheOptimum) {
  int saved = 0, cases = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {9, 4, 4, 6});
    Instance in = random.make();
    const PlanResult earlier = solve(in);
    if (!earlier.candidate) continue;
    const auto holdings = holdings_of(in, *earlier.candidate);
    in.groups[seed % in.groups.size()].count += seed % 2 == 0 ? 1 : -1;
    const PlanResult optimum = solve(in);
    if (!optimum.candidate) continue;
    WeightBytes weights;
    weights.layer = in.layer_bytes;
    weights.embedding = in.embedding_bytes;
    for (const double tolerance : {0.0, 0.05, 0.5}) {
      ReplanRequest request;
      request.optimum = *optimum.candidate;
      request.max_objective =
          optimum.objective + std::fabs(optimum.objective) * (tolerance + 1e-12);
      request.earlier.prefill_micro_batch_size = earlier.candidate->prefill_micro_batch_size;
      request.earlier.decode_micro_batch_size = earlier.candidate->decode_micro_batch_size;
      const Replanned found = replan(in, holdings, weights, request);
      ++cases;
      EXPECT_FALSE(find_violation(in, found.plan));
      EXPECT_LE(evaluate(in, found.plan).objective, request.max_objective);
      const Moves fresh = count_moves(in, request.optimum, holdings, weights);
      EXPECT_LE(found.moves.moved_bytes, fresh.moved_bytes * (1 + 1e-9));
      EXPECT_LE(least_moved_bytes(in, holdings, weights), found.moves.moved_bytes + 1);
      EXPECT_NEAR(count_moves(in, found.plan, holdings, weights).moved_bytes,
                  found.moves.moved_bytes, 1);
      if (found.moves.moved_bytes < 0.999 * fresh.moved_bytes) ++saved;
    }
  }
  EXPECT_GE(cases, 100);
  EXPECT_GE(saved, 20);
}

}  // namespace
}  // namespace tessera::solver::decision_property_test
