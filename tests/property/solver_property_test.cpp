#include <gtest/gtest.h>

#include "random_instance.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::solver_property_test {
namespace {

using instances::RandomInstance;
using instances::RandomLimits;

TEST(SolverProperty, EveryPlanPassesTheCheckerAndItsBound) {
  int plans = 0;
  for (std::uint64_t seed = 5001; seed <= 5040; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {14, 5, 4, 8});
    const Instance in = random.make();
    PlanRequest request;
    request.time_limit_s = 5;
    request.on_incumbent = [&](const Incumbent& found) {
      const auto violation = find_violation(in, found.candidate, found.objective);
      EXPECT_FALSE(violation) << violation->message;
    };
    const PlanResult result = make_ilp_planner()->plan(in, request);
    if (!result.candidate) continue;
    ++plans;
    const auto violation = find_violation(in, *result.candidate, result.objective);
    EXPECT_FALSE(violation) << violation->message;
    ASSERT_TRUE(result.bound);
    EXPECT_LE(*result.bound, result.objective);
    if (result.status == SolveStatus::optimal) {
      EXPECT_GE(*result.bound, result.objective * (1 - 1e-6));
    }
  }
  EXPECT_GE(plans, 10);
}

TEST(SolverProperty, SameRequestSamePlan) {
  for (std::uint64_t seed = 6001; seed <= 6010; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {10, 4, 4, 6});
    const Instance in = random.make();
    const PlanResult a = make_ilp_planner()->plan(in, {}), b = make_ilp_planner()->plan(in, {});
    ASSERT_EQ(a.status, b.status);
    if (!a.candidate) continue;
    EXPECT_EQ(a.candidate->order, b.candidate->order);
    EXPECT_EQ(a.candidate->first_layer, b.candidate->first_layer);
    EXPECT_EQ(a.candidate->bit, b.candidate->bit);
    EXPECT_EQ(a.objective, b.objective);
  }
}

// Dearer layers, larger theta or slower links never make a plan cheaper, whatever the plan.
TEST(SolverProperty, EvaluateIsMonotone) {
  for (std::uint64_t seed = 7001; seed <= 7300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {});
    Instance in = random.make();
    Candidate plan;
    plan.order = random.order(in);
    plan.first_layer.assign(plan.order.size() + 1, in.num_layers());
    plan.first_layer.front() = 0;
    for (std::size_t k = 1; k < plan.order.size(); ++k) {
      plan.first_layer[k] = k * in.num_layers() / plan.order.size();
    }
    plan.bit.assign(in.num_layers(), 0);
    plan.prefill_micro_batch_size = random.micro_batch(in);
    plan.decode_micro_batch_size = random.micro_batch(in);
    const double before = evaluate(in, plan).objective;
    PhaseCosts dearer = in.prefill(plan.prefill_micro_batch_size);
    for (auto* times : {&dearer.layer_s, &dearer.first_s, &dearer.last_s, &dearer.link_s}) {
      for (double& s : *times) s *= 1.5;
    }
    in.prefill = [&dearer](std::int64_t) -> const PhaseCosts& { return dearer; };
    const double after = evaluate(in, plan).objective;
    EXPECT_GE(after, before);
    in.theta += 1;
    EXPECT_GE(evaluate(in, plan).objective, after);
    in.output_tokens += 5;
    EXPECT_GE(evaluate(in, plan).objective, after);
  }
}

}  // namespace
}  // namespace tessera::solver::solver_property_test
