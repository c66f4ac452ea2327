// A cutoff hides nothing below it and everything from it on, in both exact planners; the plan below
// it is the best one, by an enumeration of every plan.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "brute_force.h"
#include "random_cases.h"
#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::cutoff_test {
namespace {

using instances::BruteForce;
using instances::for_each_case;
using instances::RandomCase;

struct Tally {
  int found = 0, cut = 0, sharded = 0;
};

void compare(const Planner& planner, const Instance& in, PlanRequest request, double tolerance,
             Tally& tally) {
  const std::optional<double> best = BruteForce(in, request).best();
  if (!best) return;
  tally.sharded += in.groups.back().sharding == 1 ? 1 : 0;
  const double step = 1e-3 * std::fabs(*best);
  request.cutoff = *best + step;
  const PlanResult above = planner.plan(in, request);
  ASSERT_EQ(above.status, SolveStatus::optimal);
  EXPECT_NEAR(above.objective, *best, tolerance * std::fabs(*best));
  ++tally.found;
  request.cutoff = *best - step;
  const PlanResult below = planner.plan(in, request);
  ASSERT_EQ(below.status, SolveStatus::infeasible);
  ASSERT_TRUE(below.violation && below.bound);
  EXPECT_EQ(below.violation->constraint, "cutoff");
  EXPECT_THAT(below.violation->message, ::testing::HasSubstr("cutoff"));
  EXPECT_DOUBLE_EQ(*below.bound, *request.cutoff);
  ++tally.cut;
}

void compare_many(const Planner& planner, std::uint64_t seeds, double tolerance) {
  Tally tally;
  for_each_case(1, seeds, {5, 3, 3, 4}, [&](RandomCase& c) {
    PlanRequest request;
    request.threads = 1;
    if (c.seed % 3 == 0) request.order = c.random.order(c.in);
    compare(planner, c.in, request, tolerance, tally);
  });
  EXPECT_GE(tally.found, static_cast<int>(seeds) / 3);
  EXPECT_GE(tally.cut, static_cast<int>(seeds) / 3);
  EXPECT_GE(tally.sharded, static_cast<int>(seeds) / 20);
}

TEST(Cutoff, OfTheExactSearch) { compare_many(*make_exact_planner(), 400, 2e-9); }

TEST(Cutoff, OfTheIlp) { compare_many(*make_ilp_planner(), 120, 1e-6); }

// What is hopeless says why, cutoff or not.
TEST(Cutoff, DoesNotHideWhyNothingFits) {
  int hopeless = 0;
  for_each_case(1, 100, {5, 3, 3, 4}, [&](RandomCase& c) {
    PlanRequest request;
    const PlanResult without = make_exact_planner()->plan(c.in, request);
    request.cutoff = 1e9;
    const PlanResult with = make_exact_planner()->plan(c.in, request);
    EXPECT_EQ(with.status, without.status);
    if (without.status != SolveStatus::infeasible) {
      EXPECT_DOUBLE_EQ(with.objective, without.objective);
      return;
    }
    ++hopeless;
    ASSERT_TRUE(with.violation);
    const std::string& constraint = without.violation->constraint;
    EXPECT_THAT(with.violation->constraint, ::testing::AnyOf(constraint, "cutoff"));
    if (constraint == "memory") {
      EXPECT_EQ(with.violation->constraint, constraint);
    }
  });
  EXPECT_GE(hopeless, 20);
}

}  // namespace
}  // namespace tessera::solver::cutoff_test
