// The bound for clusters whose orders are too many to search, on clusters small enough to search
// them all: it may never exceed the optimum, and it should beat the bound it starts from.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>

#include "exact/order_free_search.h"
#include "random_cases.h"
#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::exact::order_free_test {
namespace {

using solver::instances::for_each_case;
using solver::instances::RandomCase;

struct Bounds {
  double fluid = kInfinity, order_free = kInfinity;
};

// Of the whole search, every pair.
Bounds bounds_below(const Instance& in, double cutoff, std::size_t threads, std::size_t max_boxes) {
  const SearchSpace space(in, {});
  const ConfigTable table(
      space, [](const std::uint16_t*) { return true; },
      [](const ConfigTable::Shape&, const std::uint16_t*, std::size_t, bool, const double*) {
        return true;
      },
      in.num_bits(), 10000000);
  EXPECT_TRUE(table.complete());
  std::vector<FluidBound> fluid;
  for (const Pair& pair : space.pairs()) fluid.emplace_back(space, pair);
  Bounds bounds;
  for (FluidBound& bound : fluid) {
    bound.improve(kInfinity);
    bounds.fluid = std::min(bounds.fluid, bound.bound());
  }
  ThreadPool workers(threads);
  OrderFreeSearch search(space, table, fluid, cutoff, workers);
  for (std::size_t i = 0; i < fluid.size(); ++i) search.add_pair(i, fluid[i].box_below(cutoff));
  search.run(max_boxes, cutoff, [] { return false; });
  bounds.order_free = search.bound();
  return bounds;
}

std::optional<double> optimum_of(const Instance& in) {
  const PlanResult result = make_exact_planner()->plan(in, {});
  if (!result.candidate) return std::nullopt;
  EXPECT_EQ(result.status, SolveStatus::optimal);
  return result.objective;
}

TEST(OrderFreeSearch, NeverAboveTheOptimum) {
  int compared = 0, better = 0, with_floor = 0, with_idle_devices = 0, with_classes = 0;
  for_each_case(1, 250, {8, 4, 3, 4}, [&](RandomCase& c) {
    const auto optimum = optimum_of(c.in);
    if (!optimum) return;
    const double rounding = 1e-9 * std::fabs(*optimum) + 1e-12;
    for (const double cutoff : {kInfinity, *optimum + 0.02 * std::fabs(*optimum)}) {
      const Bounds bounds = bounds_below(c.in, cutoff, 1, 300);
      EXPECT_LE(bounds.order_free, *optimum + rounding) << "cutoff " << cutoff;
      EXPECT_GE(bounds.order_free, bounds.fluid - rounding) << "cutoff " << cutoff;
      better += bounds.order_free > bounds.fluid + 0.2 * (*optimum - bounds.fluid) ? 1 : 0;
    }
    ++compared;
    with_floor += c.in.max_omega ? 1 : 0;
    with_idle_devices += c.in.allow_empty_stage ? 1 : 0;
    with_classes += c.in.num_classes > 1 ? 1 : 0;
  });
  EXPECT_GE(compared, 100);
  EXPECT_GE(better, 60);  // of two cutoffs each
  EXPECT_GE(with_floor, 20);
  EXPECT_GE(with_idle_devices, 30);
  EXPECT_GE(with_classes, 30);
}

TEST(OrderFreeSearch, NothingIsLeftBelowTheOptimumWhenItEnds) {
  int ended = 0;
  for_each_case(1, 200, {6, 3, 2, 2}, [&](RandomCase& c) {
    const auto optimum = optimum_of(c.in);
    if (!optimum) return;
    // What costs as much as the optimum is not below it, however the bound rounds.
    const double cutoff = *optimum - 1e-6 * std::fabs(*optimum);
    ended += bounds_below(c.in, cutoff, 1, 1000).order_free == kInfinity ? 1 : 0;
  });
  EXPECT_GE(ended, 10);
}

TEST(OrderFreeSearch, SameBoundOnAnyNumberOfThreads) {
  for_each_case(1, 30, {8, 4, 3, 4}, [&](RandomCase& c) {
    if (!optimum_of(c.in)) return;
    const Bounds one = bounds_below(c.in, kInfinity, 1, 100);
    EXPECT_EQ(one.order_free, bounds_below(c.in, kInfinity, 3, 100).order_free);
  });
}

// Four types of forty devices each: too many combinations for every order.
Instance large_cluster(bool allow_empty_stage) {
  constexpr std::int64_t kBatch = 4;
  Instance in;
  in.bitwidths = {4, 16};
  in.layer_class.assign(320, 0);
  in.layer_bytes = {1e9, 4e9};
  in.batch_size = kBatch;
  in.output_tokens = 11;
  in.allow_empty_stage = allow_empty_stage;
  for (int i = 0; i < 320; ++i) {
    in.omega.insert(in.omega.end(), {0.002 + 1e-5 * (i * 37 % 100), 0.0});
  }
  for (int g = 0; g < 4; ++g) {
    in.groups.push_back({"G" + std::to_string(g), "node", 40, 2.5e9 + 1.2e9 * g});
    in.allowed.insert(in.allowed.end(), {1, 1});
  }
  auto table = std::make_shared<std::vector<PhaseCosts>>();
  for (int size = 1; size <= kBatch; ++size) {
    PhaseCosts c;
    for (int g = 0; g < 4; ++g) {
      c.layer_s.insert(c.layer_s.end(), {0.002 * (5 - g) * size, 0.0024 * (5 - g) * size});
    }
    c.first_s.assign(4, 0);
    c.last_s.assign(4, 0);
    c.link_s.assign(16, 1e-6 * size);
    table->push_back(c);
  }
  in.prefill = in.decode = [table](std::int64_t size) -> const PhaseCosts& {
    return table->at(static_cast<std::size_t>(size - 1));
  };
  return in;
}

TEST(OrderFreeSearch, LargeClustersAreSolvedToOnePercent) {
  for (const bool allow_empty_stage : {true, false}) {
    SCOPED_TRACE(allow_empty_stage);
    const Instance in = large_cluster(allow_empty_stage);
    PlanRequest request;
    request.time_limit_s = 300;
    const PlanResult result = make_exact_planner()->plan(in, request);
    ASSERT_TRUE(result.candidate && result.bound);
    EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
    EXPECT_FALSE(result.notes.empty());  // not every order was searched
    EXPECT_LE(*result.bound, result.objective);
    EXPECT_GE(*result.bound, 0.99 * result.objective);
  }
}

}  // namespace
}  // namespace tessera::solver::exact::order_free_test
