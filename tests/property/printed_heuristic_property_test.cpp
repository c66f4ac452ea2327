// Algorithms 1 and 2 of LLM-PQ as printed: what holds whatever the instance.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver::printed_heuristic_property_test {
namespace {

using instances::RandomInstance;

std::unique_ptr<Planner> printed_planner() {
  return make_heuristic_planner(make_bitwidth_transfer(TransferRules::printed), StartSet::all);
}

// Exchanges change who has which bitwidth, and never how many layers have it.
RC_GTEST_PROP(PrintedHeuristic, OnlyExchangesAndNeverWorseThanItsStart, ()) {
  RandomInstance random(*rc::gen::arbitrary<std::uint64_t>(), {16, 5, 4, 6});
  const Instance in = random.make();
  PlanRequest quick;
  quick.time_limit_s = 2;
  quick.gap = 0.5;
  const auto start = make_exact_planner()->plan(in, quick).candidate;
  RC_PRE(start.has_value());
  PlanSearch search(in, *start, {});
  search.perturb(0.3);
  const Candidate before = search.current();
  const double from = evaluate(in, before).objective;
  make_bitwidth_transfer(TransferRules::printed)->improve(search);
  const Candidate& after = search.current();
  const auto broken = find_violation(in, after);
  RC_LOG() << (broken ? broken->message : "fits") << '\n';
  RC_ASSERT(!broken);
  RC_ASSERT(evaluate(in, after).objective <= from + 1e-12 * std::max(1.0, std::abs(from)));
  RC_ASSERT(after.order == before.order);
  std::vector<std::size_t> bits = before.bit, moved = after.bit;
  std::sort(bits.begin(), bits.end());
  std::sort(moved.begin(), moved.end());
  RC_ASSERT(moved == bits);
  if (before.order.size() < 3) RC_ASSERT(after.first_layer == before.first_layer);
  RC_CLASSIFY(after.first_layer != before.first_layer);
}

RC_GTEST_PROP(PrintedHeuristic, PlannerIsNoWorseThanAdabitsAtAnyPairThatItTries, ()) {
  RandomInstance random(*rc::gen::arbitrary<std::uint64_t>(), {8, 3, 3, 4});
  const Instance in = random.make();
  PlanRequest request;
  request.order = random.order(in);
  request.prefill_micro_batch_size = request.decode_micro_batch_size = random.micro_batch(in);
  const PlanResult adabits = make_adabits_planner()->plan(in, request);
  const PlanResult fixed = printed_planner()->plan(in, request);
  RC_ASSERT(adabits.candidate.has_value() == fixed.candidate.has_value());
  RC_PRE(fixed.candidate.has_value());
  RC_ASSERT(!find_violation(in, *fixed.candidate, fixed.objective));
  const double slack = 1e-9 * std::max(1e-6, std::abs(adabits.objective));
  RC_ASSERT(fixed.objective <= adabits.objective + slack);
  if (request.order->size() != in.num_devices()) return;
  // Algorithm 1 goes through this order and pair, unless the pair is one that it has no use for.
  const auto sizes = useful_micro_batch_sizes(in);
  if (in.objective == Objective::paper ||
      std::find(sizes.begin(), sizes.end(), *request.prefill_micro_batch_size) == sizes.end()) {
    return;
  }
  RC_ASSERT(printed_planner()->plan(in, {}).objective <= fixed.objective + slack);
}

RC_GTEST_PROP(DeviceOrders, AreAllDistinctOrdersOnce, ()) {
  Instance in;
  std::size_t devices = 0;
  const auto num_groups = *rc::gen::inRange(1, 4);
  for (int g = 0; g < num_groups; ++g) {
    const auto count = *rc::gen::inRange(1, 4);
    in.groups.push_back({std::string(1, static_cast<char>('A' + g)), "n", count, 1e9});
    devices += static_cast<std::size_t>(count);
  }
  RC_PRE(devices <= 7);
  const auto least =
      static_cast<std::size_t>(*rc::gen::inRange<int>(1, static_cast<int>(devices) + 2));
  std::set<std::vector<std::size_t>> expected, seen;
  std::vector<std::size_t> prefix;
  std::vector<std::int32_t> left;
  for (const DeviceGroup& group : in.groups) left.push_back(group.count);
  const auto extend = [&](auto&& self) -> void {
    if (prefix.size() >= least) expected.insert(prefix);
    for (std::size_t g = 0; g < left.size(); ++g) {
      if (left[g] == 0) continue;
      --left[g];
      prefix.push_back(g);
      self(self);
      prefix.pop_back();
      ++left[g];
    }
  };
  extend(extend);
  DeviceOrders orders(in, least);
  while (const auto order = orders.next()) RC_ASSERT(seen.insert(*order).second);
  RC_ASSERT(seen == expected);
}

}  // namespace
}  // namespace tessera::solver::printed_heuristic_property_test
