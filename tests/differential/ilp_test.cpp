// The ILP against an enumeration of every plan, and against proven optima of larger instances.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "brute_force.h"
#include "published_instances.h"
#include "random_instance.h"
#include "tessera/core/json.h"
#include "tessera/solver/instance_file.h"
#include "tessera/solver/planner.h"

namespace tessera::solver {
namespace {

using testing::BruteForce;
using testing::RandomInstance;
using testing::RandomLimits;

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
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {});
    const Instance in = random.make();
    PlanRequest request;
    request.order = random.order(in);
    request.prefill_micro_batch_size = random.micro_batch(in);
    request.decode_micro_batch_size = random.micro_batch(in);
    compare(in, request, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(tally.optimal, 140);
  EXPECT_GE(tally.infeasible, 100);
}

TEST(IlpDifferential, MatchesBruteForceWithOrderAndPairSearch) {
  Tally tally;
  for (std::uint64_t seed = 1001; seed <= 1200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomInstance random(seed, {5, 3, 3, 5});
    const Instance in = random.make();
    PlanRequest request;
    if (seed % 5 == 0) request.order = random.order(in);
    if (seed % 7 == 0) request.prefill_micro_batch_size = random.micro_batch(in);
    if (seed % 11 == 0) request.decode_micro_batch_size = random.micro_batch(in);
    compare(in, request, tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(tally.optimal, 70);
  EXPECT_GE(tally.infeasible, 30);
}

class Published : public testing::PublishedInstances {
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
}  // namespace tessera::solver
