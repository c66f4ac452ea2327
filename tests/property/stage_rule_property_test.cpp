// What servers can launch as a rule of the instance: the exact search and the ILP find the best of
// all plans that keep it, and everything else keeps it.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdint>

#include "brute_force.h"
#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver::stage_rule_property_test {
namespace {

using instances::BruteForce;
using instances::RandomInstance;

struct Ruled {
  RandomInstance random;
  Instance in;
  PlanRequest request;
};

Ruled drawn(const instances::RandomLimits& limits) {
  RandomInstance random(*rc::gen::arbitrary<std::uint32_t>(), limits);
  Instance in = random.make();
  random.rule(in);
  PlanRequest request;
  if (*rc::gen::inRange(0, 4) == 0) request.order = random.order(in);
  request.prefill_micro_batch_size = random.micro_batch(in);
  request.decode_micro_batch_size = random.micro_batch(in);
  RC_TAG(request.order ? "given order" : in.allow_empty_stage ? "may leave out" : "all devices");
  return {std::move(random), std::move(in), std::move(request)};
}

void expect_best(const Instance& in, const PlanResult& result, std::optional<double> best,
                 double tolerance) {
  RC_ASSERT((result.status == SolveStatus::infeasible) == !best.has_value());
  if (!best) return RC_ASSERT(!result.violation->message.empty());
  RC_ASSERT(result.status == SolveStatus::optimal);
  RC_ASSERT(std::fabs(result.objective - *best) <= tolerance * std::fabs(*best) + 1e-12);
  RC_ASSERT(!find_violation(in, *result.candidate, result.objective));
}

RC_GTEST_PROP(StageRule, ExactIlpAndEnumerationAgree, ()) {
  const Ruled ruled = drawn({5, 5, 2, 3});
  const std::optional<double> best = BruteForce(ruled.in, ruled.request).best();
  RC_TAG(best ? "a plan" : "no plan");
  expect_best(ruled.in, make_exact_planner()->plan(ruled.in, ruled.request), best, 2e-9);
  expect_best(ruled.in, make_ilp_planner()->plan(ruled.in, ruled.request), best, 1e-6);
}

// Eqs. (4) to (16) as printed, order by order.
RC_GTEST_PROP(StageRule, ThePrintedFormAgrees, ()) {
  Ruled ruled = drawn({4, 4, 2, 2});
  ruled.request.ilp_form = IlpForm::paper;
  expect_best(ruled.in, make_ilp_planner()->plan(ruled.in, ruled.request),
              BruteForce(ruled.in, ruled.request).best(), 1e-6);
}

RC_GTEST_PROP(StageRule, HeuristicsKeepIt, ()) {
  Ruled ruled = drawn({7, 5, 3, 4});
  for (const auto& planner :
       {make_adabits_planner(), make_heuristic_planner(make_bitwidth_transfer())}) {
    const PlanResult result = planner->plan(ruled.in, ruled.request);
    if (!result.candidate) continue;
    RC_ASSERT(!find_violation(ruled.in, *result.candidate, result.objective));
    PlanSearch search(ruled.in, *result.candidate, ruled.request);
    for (int step = 0; step < 10; ++step) {
      const auto move = search.random_move({}, true);
      if (!move) break;
      search.apply(*move);  // throws where it does not fit
    }
  }
}

RC_GTEST_PROP(StageRule, OrdersAreThoseThatKeepIt, ()) {
  const Ruled ruled = drawn({7, 6, 2, 2});
  Instance free = ruled.in;
  free.stage_rule = StageRule::any;
  DeviceOrders all(free, 1), kept(ruled.in, 1);
  while (const auto order = all.next()) {
    if (BruteForce::keeps_stage_rule(ruled.in, *order)) RC_ASSERT(kept.next() == order);
  }
  RC_ASSERT(!kept.next());
}

}  // namespace
}  // namespace tessera::solver::stage_rule_property_test
