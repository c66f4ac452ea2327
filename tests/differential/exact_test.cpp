// The exact search against an enumeration of every plan, against the ILP, and against proven optima
// of larger instances.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>

#include "brute_force.h"
#include "published_instances.h"
#include "random_cases.h"
#include "tessera/core/json.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/instance_file.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::exact_test {
namespace {

using instances::BruteForce;
using instances::for_each_case;
using instances::RandomCase;

// Of the problems compared: how many had a plan, and what the optimal plan or the problem had.
struct Tally {
  int optimal = 0, infeasible = 0, infeasible_order = 0;
  int steady = 0, paper = 0, with_floor = 0, with_empty_stage = 0, with_classes = 0;
  int with_slow_link = 0, with_rising_omega = 0, with_missing_kernel = 0;

  void expect_each(int count) const {
    EXPECT_GE(infeasible, count);
    EXPECT_GE(steady, count);
    EXPECT_GE(paper, count);
    EXPECT_GE(with_floor, count);
    EXPECT_GE(with_classes, count);
    EXPECT_GE(with_slow_link, count);
    EXPECT_GE(with_rising_omega, count);
    EXPECT_GE(with_missing_kernel, count);
  }
};

bool omega_rises(const Instance& in) {
  for (std::size_t i = 0; i < in.num_layers(); ++i) {
    for (std::size_t b = 1; b < in.num_bits(); ++b) {
      if (in.omega_at(i, b) > in.omega_at(i, b - 1)) return true;
    }
  }
  return false;
}

void count_features(const Instance& in, const PlanResult& result, Tally& tally) {
  ++tally.optimal;
  (in.objective == Objective::steady ? tally.steady : tally.paper) += 1;
  tally.with_rising_omega += omega_rises(in) ? 1 : 0;
  tally.with_missing_kernel +=
      std::count(in.allowed.begin(), in.allowed.end(), std::uint8_t{0}) > 0 ? 1 : 0;
  tally.with_floor += in.max_omega ? 1 : 0;
  tally.with_classes += in.num_classes > 1 ? 1 : 0;
  const auto& first = result.candidate->first_layer;
  tally.with_empty_stage += std::adjacent_find(first.begin(), first.end()) != first.end() ? 1 : 0;
  const Evaluation e = evaluate(in, *result.candidate);
  double slowest = 0;
  for (const StageEvaluation& stage : e.stages) slowest = std::max(slowest, stage.prefill_s);
  tally.with_slow_link += e.prefill_max_s > slowest ? 1 : 0;
}

void expect_proven(const Instance& in, const PlanResult& result, double best, double tolerance) {
  ASSERT_EQ(result.status, SolveStatus::optimal)
      << "best " << best << (result.violation ? " " + result.violation->message : "");
  EXPECT_NEAR(result.objective, best, tolerance * std::fabs(best) + 1e-12);
  ASSERT_TRUE(result.bound);
  EXPECT_LE(*result.bound, result.objective);
  EXPECT_GE(*result.bound, result.objective - 1e-9 * std::fabs(result.objective));
  const auto violation = find_violation(in, *result.candidate, result.objective);
  EXPECT_FALSE(violation) << violation->message;
}

void compare_to_enumeration(const Instance& in, PlanRequest request, Tally& tally) {
  const std::optional<double> best = BruteForce(in, request).best();
  request.threads = 2;
  const PlanResult result = make_exact_planner()->plan(in, request);
  if (!best) {
    EXPECT_EQ(result.status, SolveStatus::infeasible) << "objective " << result.objective;
    ASSERT_TRUE(result.violation);
    EXPECT_FALSE(result.violation->message.empty());
    ++tally.infeasible;
    tally.infeasible_order += request.order ? 1 : 0;
    return;
  }
  expect_proven(in, result, *best, 2e-9);
  if (result.candidate) count_features(in, result, tally);
}

TEST(ExactDifferential, MatchesEnumerationAtFixedOrderAndPair) {
  Tally tally;
  for_each_case(1, 1000, {},
                [&](RandomCase& c) { compare_to_enumeration(c.in, c.sized(true), tally); });
  EXPECT_GE(tally.optimal, 300);
  EXPECT_GE(tally.infeasible_order, 200);
  EXPECT_GE(tally.with_empty_stage, 10);
  tally.expect_each(40);
}

TEST(ExactDifferential, MatchesEnumerationWithOrderAndPairSearch) {
  Tally tally;
  for_each_case(1001, 1600, {5, 3, 3, 5},
                [&](RandomCase& c) { compare_to_enumeration(c.in, c.searched(), tally); });
  EXPECT_GE(tally.optimal, 200);
  tally.expect_each(20);
}

TEST(ExactDifferential, MatchesEnumerationWithFourDevicesInAnyOrder) {
  Tally tally;
  for_each_case(2001, 2150, {5, 4, 3, 3}, [&](RandomCase& c) {
    if (c.seed % 2 == 0) c.in.allow_empty_stage = true;
    compare_to_enumeration(c.in, c.sized(), tally);
  });
  EXPECT_GE(tally.optimal, 50);
}

// Makes the first two groups alike but for their links.
void make_twins(Instance& in) {
  const std::size_t bits = in.num_bits(), cells = bits * static_cast<std::size_t>(in.num_classes);
  in.groups[1].usable_bytes = in.groups[0].usable_bytes;
  in.groups[1].sharding = in.groups[0].sharding;
  std::copy_n(in.allowed.begin(), bits, in.allowed.begin() + static_cast<std::ptrdiff_t>(bits));
  const auto twins = [&](const std::function<const PhaseCosts&(std::int64_t)>& costs) {
    auto table = std::make_shared<std::vector<PhaseCosts>>();
    for (std::int64_t size = 1; size <= in.batch_size; ++size) {
      PhaseCosts c = costs(size);
      const std::vector<double> first(c.layer_s.begin(),
                                      c.layer_s.begin() + static_cast<std::ptrdiff_t>(cells));
      std::copy(first.begin(), first.end(), c.layer_s.begin() + static_cast<std::ptrdiff_t>(cells));
      c.first_s[1] = c.first_s[0];
      c.last_s[1] = c.last_s[0];
      table->push_back(std::move(c));
    }
    return [table](std::int64_t size) -> const PhaseCosts& {
      return table->at(static_cast<std::size_t>(size - 1));
    };
  };
  in.prefill = twins(in.prefill);
  in.decode = twins(in.decode);
}

// Groups that differ in their links only are searched as one kind of device where links are fast.
TEST(ExactDifferential, MatchesEnumerationWithTwinGroups) {
  Tally tally;
  int twins = 0;
  for_each_case(5001, 5400, {5, 4, 3, 3}, [&](RandomCase& c) {
    if (c.in.groups.size() < 2) return;
    make_twins(c.in);
    ++twins;
    compare_to_enumeration(c.in, c.sized(c.seed % 3 == 0), tally);
  });
  EXPECT_GE(twins, 150);
  EXPECT_GE(tally.optimal, 50);
}

// Both proven on the same problem: to 1e-6.
bool agrees_with_the_ilp(const Instance& in, PlanRequest request) {
  request.threads = 2;
  const PlanResult exact = make_exact_planner()->plan(in, request);
  request.time_limit_s = 5;
  const PlanResult ilp = make_ilp_planner()->plan(in, request);
  if (ilp.status == SolveStatus::infeasible) {
    EXPECT_EQ(exact.status, SolveStatus::infeasible) << exact.objective;
  } else if (ilp.status == SolveStatus::optimal) {
    expect_proven(in, exact, ilp.objective, 1e-6);
    EXPECT_LE(exact.objective, ilp.objective * (1 + 2e-9));
    return true;
  } else if (ilp.candidate && exact.candidate) {
    EXPECT_LE(exact.objective, ilp.objective * (1 + 2e-9));
  }
  return false;
}

TEST(ExactDifferential, MatchesTheIlp) {
  int steady = 0, paper = 0, with_floor = 0, any_order = 0;
  for (std::uint64_t seed = 3001; seed <= 3240; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCase c(seed, {seed % 4 == 0 ? 14 : 9, 5, 4, 8});
    c.in.objective = seed % 2 == 0 ? Objective::steady : Objective::paper;
    PlanRequest request;
    if (seed % 3 != 0) request.order = c.random.order(c.in);
    if (seed % 4 != 0) request.prefill_micro_batch_size = c.random.micro_batch(c.in);
    request.decode_micro_batch_size = c.random.micro_batch(c.in);
    if (!agrees_with_the_ilp(c.in, request)) continue;
    (c.in.objective == Objective::steady ? steady : paper) += 1;
    with_floor += c.in.max_omega ? 1 : 0;
    any_order += request.order ? 0 : 1;
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(steady, 30);
  EXPECT_GE(paper, 30);
  EXPECT_GE(with_floor, 15);
  EXPECT_GE(any_order, 15);
}

// The planning instances with layers of two shapes: more configurations than a table holds without
// filtering, and links slow enough to decide the order.
TEST(ExactDifferential, LayerShapesAndSlowLinksAgreeWithTheIlp) {
  int compared = 0;
  for_each_case(6001, 6024, {18, 4, 4, 6}, [&](RandomCase& c) {
    if (c.in.num_classes < 2) return;
    compared += agrees_with_the_ilp(c.in, c.sized()) ? 1 : 0;
  });
  EXPECT_GE(compared, 2);
}

// What callers see of the plan, for comparisons.
std::string text(const PlanResult& result) {
  std::string s = std::string(name_of(result.status));
  if (!result.candidate) return s;
  const Candidate& c = *result.candidate;
  s += " " + std::to_string(c.prefill_micro_batch_size) + "/" +
       std::to_string(c.decode_micro_batch_size);
  for (const auto* list : {&c.order, &c.first_layer, &c.bit}) {
    s += " |";
    for (const std::size_t v : *list) s += " " + std::to_string(v);
  }
  return s;
}

TEST(ExactDifferential, SamePlanOnAnyNumberOfThreads) {
  for_each_case(4001, 4060, {12, 5, 4, 8}, [](RandomCase& c) {
    PlanRequest request;
    request.threads = 1;
    const PlanResult one = make_exact_planner()->plan(c.in, request);
    for (const std::int32_t threads : {2, 4}) {
      request.threads = threads;
      const PlanResult many = make_exact_planner()->plan(c.in, request);
      EXPECT_EQ(text(one), text(many));
      EXPECT_EQ(one.objective, many.objective);
      EXPECT_EQ(one.bound, many.bound);
    }
  });
}

class ExactPublished : public instances::PublishedInstances {
 protected:
  void check_single(const std::string& name) const {
    for_each_single(name, [](const Instance& in, const PlanRequest& request, double optimum) {
      expect_proven(in, make_exact_planner()->plan(in, request), optimum, 1e-6);
    });
  }

  void check_full(const std::string& name) const {
    SCOPED_TRACE(name);
    Instance in = load(name);
    const Json& full = expected_[name]["full"];
    expect_proven(in, make_exact_planner()->plan(in, {}),
                  full["steady_all_pairs"]["obj"].get<double>(), 1e-6);
    in.objective = Objective::paper;
    expect_proven(in, make_exact_planner()->plan(in, {}),
                  full["literal_xi=ceil(B/N)_all_eta_le_xi"]["obj"].get<double>(), 1e-6);
  }
};

TEST_F(ExactPublished, SinglePairOptima) {
  for (const auto& [name, entry] : expected_.items()) check_single(name);
}

TEST_F(ExactPublished, WholeSearch) {
  for (const auto& [name, entry] : expected_.items()) check_full(name);
}

TEST_F(ExactPublished, SamePlanOnAnyNumberOfThreads) {
  for (const char* name : {"c3", "c5", "c6", "sq2"}) {
    SCOPED_TRACE(name);
    const Instance in = load(name);
    PlanRequest request;
    request.threads = 1;
    const PlanResult one = make_exact_planner()->plan(in, request);
    for (const std::int32_t threads : {2, 4}) {
      request.threads = threads;
      EXPECT_EQ(text(one), text(make_exact_planner()->plan(in, request)));
    }
  }
}

TEST_F(ExactPublished, EmptyStagesForbiddenUsesEveryDevice) {
  for (const char* name : {"c3", "c6", "sq2"}) {
    SCOPED_TRACE(name);
    Instance in = load(name);
    const double free = expected_[name]["full"]["steady_all_pairs"]["obj"].get<double>();
    in.allow_empty_stage = false;
    const PlanResult result = make_exact_planner()->plan(in, {});
    ASSERT_EQ(result.status, SolveStatus::optimal);
    EXPECT_GE(result.objective, free * (1 - 1e-9));
    EXPECT_EQ(result.candidate->order.size(), in.num_devices());
    EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
  }
}

TEST_F(ExactPublished, BoundsAndIncumbentsOnTheWay) {
  const Instance in = load("s8_syn80");
  PlanRequest request;
  double last = std::numeric_limits<double>::infinity();
  int incumbents = 0;
  request.on_incumbent = [&](const Incumbent& found) {
    EXPECT_LT(found.objective, last);
    EXPECT_LE(found.bound, found.objective);
    EXPECT_FALSE(find_violation(in, found.candidate, found.objective));
    last = found.objective;
    ++incumbents;
  };
  const PlanResult result = make_exact_planner()->plan(in, request);
  EXPECT_EQ(result.objective, last);
  EXPECT_GE(incumbents, 1);
}

TEST_F(ExactPublished, GapStopsEarlyWithinItsPromise) {
  const Instance in = load("sq2");
  PlanRequest request;
  request.gap = 0.05;
  const PlanResult result = make_exact_planner()->plan(in, request);
  const double best = expected_["sq2"]["full"]["steady_all_pairs"]["obj"].get<double>();
  EXPECT_EQ(result.status, SolveStatus::optimal);
  EXPECT_LE(result.objective, best / (1 - 0.05) * (1 + 1e-9));
  EXPECT_LE(*result.bound, best * (1 + 1e-9));
}

TEST_F(ExactPublished, TimeLimitReturnsTheIncumbentWithItsBound) {
  const Instance in = load("l70_v4a2");
  const double best = expected_["l70_v4a2"]["full"]["steady_all_pairs"]["obj"].get<double>();
  for (const double limit : {0.0, 0.05, 0.2}) {
    SCOPED_TRACE(limit);
    PlanRequest request;
    request.time_limit_s = limit;
    const PlanResult result = make_exact_planner()->plan(in, request);
    if (result.status == SolveStatus::optimal) continue;
    EXPECT_EQ(result.status, result.candidate ? SolveStatus::feasible : SolveStatus::time_limit);
    EXPECT_EQ(result.stopped_by, SolveStatus::time_limit);
    EXPECT_LE(result.bound.value_or(0), best * (1 + 1e-9));
    if (!result.candidate) continue;
    EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
  }
}

}  // namespace
}  // namespace tessera::solver::exact_test
