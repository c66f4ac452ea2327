// The ILP against an enumeration of every plan, and against proven optima of larger instances.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "brute_force.h"
#include "published_instances.h"
#include "random_cases.h"
#include "tessera/core/json.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/instance_file.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver::ilp_test {
namespace {

using instances::BruteForce;
using instances::for_each_case;
using instances::RandomCase;

// Compares one request; counts what kind of outcome it was.
struct Tally {
  int optimal = 0, infeasible = 0;
};

void compare(const Instance& in, const PlanRequest& request, Tally& tally) {
  const std::optional<double> best = BruteForce(in, request).best();
  const PlanResult result = make_ilp_planner()->plan(in, request);
  if (!best) {
    EXPECT_EQ(result.status, SolveStatus::infeasible) << "objective " << result.objective;
    ASSERT_TRUE(result.violation);
    EXPECT_FALSE(result.violation->message.empty());
    ++tally.infeasible;
    return;
  }
  ASSERT_EQ(result.status, SolveStatus::optimal)
      << "best " << *best << (result.violation ? " " + result.violation->message : "");
  EXPECT_NEAR(result.objective, *best, 1e-6 * *best);
  ASSERT_TRUE(result.bound);
  EXPECT_LE(*result.bound, result.objective);
  EXPECT_GE(*result.bound, result.objective * (1 - 3e-7));
  const auto violation = find_violation(in, *result.candidate, result.objective);
  EXPECT_FALSE(violation) << violation->message;
  ++tally.optimal;
}

TEST(IlpDifferential, MatchesBruteForceAtFixedOrderAndPair) {
  Tally tally;
  for_each_case(1, 500, {}, [&](RandomCase& c) { compare(c.in, c.sized(true), tally); });
  EXPECT_GE(tally.optimal, 140);
  EXPECT_GE(tally.infeasible, 100);
}

TEST(IlpDifferential, MatchesBruteForceWithOrderAndPairSearch) {
  Tally tally;
  for_each_case(1001, 1200, {5, 3, 3, 5},
                [&](RandomCase& c) { compare(c.in, c.searched(), tally); });
  EXPECT_GE(tally.optimal, 70);
  EXPECT_GE(tally.infeasible, 30);
}

// Eqs. (4) to (16) as printed have the same optimum.
PlanRequest as_printed(PlanRequest request) {
  request.ilp_form = IlpForm::paper;
  return request;
}

TEST(IlpDifferential, PrintedFormMatchesBruteForceAtFixedOrderAndPair) {
  Tally tally;
  for_each_case(2001, 2300, {},
                [&](RandomCase& c) { compare(c.in, as_printed(c.sized(true)), tally); });
  EXPECT_GE(tally.optimal, 80);
  EXPECT_GE(tally.infeasible, 60);
}

TEST(IlpDifferential, PrintedFormMatchesBruteForceWithOrderAndPairSearch) {
  Tally tally;
  for_each_case(3001, 3080, {4, 3, 3, 4},
                [&](RandomCase& c) { compare(c.in, as_printed(c.searched()), tally); });
  EXPECT_GE(tally.optimal, 20);
  EXPECT_GE(tally.infeasible, 10);
}

// Larger ones than an enumeration can do, against the exact search.
TEST(IlpDifferential, PrintedFormMatchesTheExactSearch) {
  int optimal = 0;
  for_each_case(4001, 4060, {14, 4, 4, 8}, [&](RandomCase& c) {
    const PlanRequest request = c.sized(true);
    const PlanResult exact = make_exact_planner()->plan(c.in, request);
    PlanRequest printed = as_printed(request);
    printed.time_limit_s = 20;
    const PlanResult ilp = make_ilp_planner()->plan(c.in, printed);
    ASSERT_EQ(ilp.candidate.has_value(), exact.candidate.has_value());
    if (!exact.candidate) return;
    const double slack = 1e-6 * std::fabs(exact.objective) + 1e-12;
    ASSERT_TRUE(ilp.bound);
    EXPECT_LE(*ilp.bound, exact.objective + slack);
    EXPECT_GE(ilp.objective, exact.objective - slack);
    if (ilp.status != SolveStatus::optimal) return;
    EXPECT_NEAR(ilp.objective, exact.objective, slack);
    ++optimal;
  });
  EXPECT_GE(optimal, 15);
}

// Equal devices, kernels that are fast at high bitwidths only, and costs of omega that reach down
// to the solver's tolerance: its primal simplex then stops at an assertion for every third seed.
Instance equal_devices(std::uint64_t seed) {
  Rng rng(seed);
  Instance in;
  in.name = "equal";
  in.bitwidths = {3, 4, 8, 16};
  in.groups = {{"A", "node", 4, 30.35e9}};
  in.layer_class.assign(32, 0);
  in.layer_bytes = {2.21e9, 2.46e9, 3.48e9, 5.52e9};
  in.allowed.assign(4, 1);
  in.embedding_bytes[1] = in.embedding_bytes[3] = 1.89e9;
  for (int i = 0; i < 32; ++i) {
    for (const int bits : in.bitwidths) {
      in.omega.push_back(2 / std::pow(std::exp2(bits - 1) - 1, 2));
    }
  }
  in.theta = 0.001;
  in.batch_size = 32;
  in.output_tokens = 100;
  in.objective = Objective::paper;
  const auto costs = [&](std::vector<double> base, std::vector<double> slope, double first) {
    for (std::vector<double>* times : {&base, &slope}) {
      for (double& s : *times) s *= 0.9 + 0.2 * rng.uniform();
    }
    auto table = std::make_shared<std::vector<PhaseCosts>>();
    for (int size = 1; size <= 32; ++size) {
      PhaseCosts c;
      for (std::size_t b = 0; b < 4; ++b) c.layer_s.push_back(base[b] + slope[b] * size);
      c.first_s = {first};
      c.last_s = {0};
      c.link_s = {1e-5};
      for (const std::size_t place : {0u, 1u, 2u, 3u}) {
        c.activation_bytes[place] = place % 2 == 1 ? std::max(7.3e8, 1.7e8 * size) : 7.3e8;
      }
      table->push_back(c);
    }
    return [table](std::int64_t size) -> const PhaseCosts& {
      return table->at(static_cast<std::size_t>(size - 1));
    };
  };
  in.prefill = costs({0, 0, 3e-4, 3e-4}, {0.6854, 0.9205, 0.0357, 0.0283}, 0.0016);
  in.decode = costs({3.5e-3, 2.4e-3, 0.0234, 7.2e-3}, {1.3e-3, 1.9e-3, 3.4e-4, 3.3e-4}, 1.58e-3);
  return in;
}

TEST(IlpDifferential, MatchesTheExactSearchOnEqualDevices) {
  for (std::uint64_t seed = 60; seed < 72; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Instance in = equal_devices(seed);
    PlanRequest request;
    request.decode_micro_batch_size = 8;
    const PlanResult exact = make_exact_planner()->plan(in, request);
    ASSERT_EQ(exact.status, SolveStatus::optimal);
    const PlanResult ilp = make_ilp_planner()->plan(in, request);
    EXPECT_EQ(ilp.status, SolveStatus::optimal);
    EXPECT_NEAR(ilp.objective, exact.objective, 1e-6 * exact.objective);
  }
}

class Published : public instances::PublishedInstances {
 protected:
  void check_single(const std::string& name) const { for_each_single(name, expect_optimum); }

  static void expect_optimum(const Instance& in, const PlanRequest& request, double optimum) {
    const PlanResult result = make_ilp_planner()->plan(in, request);
    EXPECT_EQ(result.status, SolveStatus::optimal);
    EXPECT_NEAR(result.objective, optimum, 1e-6 * optimum);
    ASSERT_TRUE(result.candidate);
    EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
  }
};

TEST_F(Published, SinglePairOptimaOfSmallClusters) {
  for (const char* name : {"c1", "c2", "c3", "c9", "c10", "sq2"}) check_single(name);
}

TEST_F(Published, SinglePairOptimaOfMixedClusters) {
  for (const char* name : {"c5", "c6"}) check_single(name);
}

TEST_F(Published, WholeSearchOfThreeT4AndOneV100) {
  Instance in = load("c3");
  expect_optimum(in, {}, expected_["c3"]["full"]["steady_all_pairs"]["obj"].get<double>());
  in.objective = Objective::paper;
  expect_optimum(
      in, {}, expected_["c3"]["full"]["literal_xi=ceil(B/N)_all_eta_le_xi"]["obj"].get<double>());
}

}  // namespace
}  // namespace tessera::solver::ilp_test
