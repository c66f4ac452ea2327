// What the ILP planner does when it is watched, stopped or short of time.

#include "tessera/solver/ilp/ilp_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

#include "random_instance.h"
#include "small_instance.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/mip/cbc.h"
#include "tessera/solver/moves/assign_bits.h"

namespace tessera::solver::ilp_planner_test {
namespace {

using instances::RandomInstance;
using instances::small_instance;

struct Mine : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A knapsack whose linear relaxation is not whole, so that CBC has to find solutions itself.
LinearModel knapsack() {
  LinearModel model;
  Rng rng(7);
  std::vector<LinearModel::Term> weight, volume;
  for (int i = 0; i < 40; ++i) {
    const std::size_t c = model.add_column(0, 1, -10 - 5 * rng.uniform(), true);
    weight.emplace_back(c, 5 + 5 * rng.uniform());
    volume.emplace_back(c, 3 + 9 * rng.uniform());
  }
  model.add_row(-kFree, 97.3, weight);
  model.add_row(-kFree, 88.1, volume);
  return model;
}

TEST(Cbc, SolvesAndStaysSilent) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const MipResult result = solve_mip(knapsack(), {});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(result.finished);
  ASSERT_TRUE(result.x);
  EXPECT_NEAR(result.bound, result.objective, 1e-9);
  const MipResult again = solve_mip(knapsack(), {});
  EXPECT_EQ(*again.x, *result.x);
}

TEST(Cbc, CutoffAtTheOptimumLeavesNothing) {
  const MipResult first = solve_mip(knapsack(), {});
  MipLimits limits;
  limits.cutoff = first.objective - 1e-4;
  const MipResult second = solve_mip(knapsack(), limits);
  EXPECT_TRUE(second.finished);
  EXPECT_FALSE(second.x);
  EXPECT_DOUBLE_EQ(second.bound, *limits.cutoff);
}

TEST(Cbc, TakesAStart) {
  const LinearModel model = knapsack();
  // The first solution there is when the search is stopped as early as possible.
  const auto first = [&](MipLimits limits) {
    MipResult stopped;
    for (int patience = 1; patience < 10000 && !stopped.x; ++patience) {
      limits.should_stop = [left = patience]() mutable { return --left <= 0; };
      stopped = solve_mip(model, limits);
    }
    return stopped.x.value_or(std::vector<double>(model.columns.size(), -1));
  };
  const auto has_all = [](const std::vector<double>& x, const std::vector<std::size_t>& taken) {
    return std::all_of(taken.begin(), taken.end(), [&](std::size_t c) { return x[c] == 1; });
  };
  // Three things that no heuristic would take together.
  const std::vector<std::size_t> odd{3, 17, 29};
  MipLimits limits;
  limits.start.emplace(model.columns.size(), 0.0);
  for (const std::size_t c : odd) (*limits.start)[c] = 1;
  EXPECT_TRUE(has_all(first(limits), odd));
  EXPECT_FALSE(has_all(first({}), odd));
  EXPECT_NEAR(solve_mip(model, limits).objective, solve_mip(model, {}).objective, 1e-9);
}

TEST(Cbc, ExceptionComesOutIntact) {
  MipLimits limits;
  limits.on_solution = [](const std::vector<double>&, double) { throw Mine("from inside"); };
  try {
    solve_mip(knapsack(), limits);
    FAIL() << "nothing was thrown";
  } catch (const Mine& e) {
    EXPECT_STREQ(e.what(), "from inside");
  }
}

TEST(Cbc, StopLeavesAValidBound) {
  const MipResult whole = solve_mip(knapsack(), {});
  MipLimits limits;
  bool found = false;
  limits.on_solution = [&](const std::vector<double>&, double) { found = true; };
  limits.should_stop = [&] { return found; };
  const MipResult cut = solve_mip(knapsack(), limits);
  ASSERT_TRUE(cut.x);
  EXPECT_LE(cut.bound, whole.objective + 1e-9);
  EXPECT_GE(cut.objective, whole.objective - 1e-9);
}

TEST(IlpPlanner, ExceptionOfTheCallerComesOutIntact) {
  int calls = 0;
  PlanRequest request;
  request.on_incumbent = [&](const Incumbent&) { ++calls; };
  const Instance in = small_instance();
  ASSERT_EQ(make_ilp_planner()->plan(in, request).status, SolveStatus::optimal);
  for (int last = calls; last >= 1; --last) {
    int call = 0;
    request.on_incumbent = [&](const Incumbent&) {
      if (++call == last) throw Mine("call " + std::to_string(call));
    };
    try {
      make_ilp_planner()->plan(in, request);
      FAIL() << "nothing was thrown";
    } catch (const Mine& e) {
      EXPECT_EQ(e.what(), "call " + std::to_string(last));
    }
  }
}

TEST(IlpPlanner, IncumbentsImproveAndAreValid) {
  const Instance in = small_instance();
  double before = std::numeric_limits<double>::infinity();
  PlanRequest request;
  request.on_incumbent = [&](const Incumbent& found) {
    EXPECT_LT(found.objective, before);
    EXPECT_LE(found.bound, found.objective);
    EXPECT_FALSE(find_violation(in, found.candidate, found.objective));
    before = found.objective;
  };
  const PlanResult result = make_ilp_planner()->plan(in, request);
  EXPECT_DOUBLE_EQ(result.objective, before);
}

TEST(IlpPlanner, StopKeepsTheIncumbent) {
  std::atomic<bool> stop{false};
  PlanRequest request;
  request.stop = &stop;
  request.on_incumbent = [&](const Incumbent&) { stop = true; };
  const Instance in = small_instance();
  const PlanResult result = make_ilp_planner()->plan(in, request);
  EXPECT_EQ(result.status, SolveStatus::feasible);
  EXPECT_EQ(result.stopped_by, SolveStatus::interrupted);
  ASSERT_TRUE(result.candidate);
  EXPECT_FALSE(find_violation(in, *result.candidate, result.objective));
  ASSERT_TRUE(result.bound);
  EXPECT_LE(*result.bound, result.objective);
}

TEST(IlpPlanner, StoppedBeforeAnythingWasFound) {
  std::atomic<bool> stop{true};
  PlanRequest request;
  request.stop = &stop;
  const PlanResult result = make_ilp_planner()->plan(small_instance(), request);
  EXPECT_EQ(result.status, SolveStatus::interrupted);
  EXPECT_EQ(result.stopped_by, SolveStatus::interrupted);
  EXPECT_FALSE(result.candidate);
}

TEST(IlpPlanner, NoTimeAtAll) {
  PlanRequest request;
  request.time_limit_s = 0;
  const PlanResult result = make_ilp_planner()->plan(small_instance(), request);
  EXPECT_EQ(result.status, SolveStatus::time_limit);
  EXPECT_FALSE(result.candidate);
}

TEST(IlpPlanner, GapIsKept) {
  const Instance in = small_instance();
  const double best = make_ilp_planner()->plan(in, {}).objective;
  PlanRequest request;
  request.gap = 0.2;
  const PlanResult result = make_ilp_planner()->plan(in, request);
  EXPECT_EQ(result.status, SolveStatus::optimal);
  ASSERT_TRUE(result.bound);
  EXPECT_LE(*result.bound, best * (1 + 1e-9));
  EXPECT_LE(result.objective, best * 1.25 + 1e-9);
}

TEST(IlpPlanner, StartsFromAPlan) {
  const Instance in = small_instance();
  const PlanResult best = make_ilp_planner()->plan(in, {});
  for (const IlpForm form : {IlpForm::tightened, IlpForm::base, IlpForm::paper}) {
    for (const Candidate& start : {instances::small_candidate(), *best.candidate}) {
      PlanRequest request;
      request.ilp_form = form;
      request.start = start;
      std::vector<double> seen;
      request.on_incumbent = [&](const Incumbent& found) { seen.push_back(found.objective); };
      const PlanResult result = make_ilp_planner()->plan(in, request);
      ASSERT_FALSE(seen.empty());
      EXPECT_DOUBLE_EQ(seen.front(), evaluate(in, start).objective);
      EXPECT_EQ(result.status, SolveStatus::optimal);
      EXPECT_NEAR(result.objective, best.objective, 1e-6 * best.objective);
    }
  }
}

TEST(IlpPlanner, StartSurvivesHavingNoTime) {
  PlanRequest request;
  request.time_limit_s = 0;
  request.start = instances::small_candidate();
  const PlanResult result = make_ilp_planner()->plan(small_instance(), request);
  EXPECT_EQ(result.status, SolveStatus::feasible);
  EXPECT_EQ(result.candidate->bit, instances::small_candidate().bit);
}

// The programme as printed is solved for itself for each order and pair: what was not solved has no
// bound.
TEST(IlpPlanner, PrintedFormWithoutTimeSaysNothing) {
  PlanRequest request;
  request.ilp_form = IlpForm::paper;
  request.time_limit_s = 0;
  const PlanResult none = make_ilp_planner()->plan(small_instance(), request);
  EXPECT_EQ(none.status, SolveStatus::time_limit);
  EXPECT_FALSE(none.candidate);
  EXPECT_FALSE(none.bound);
  std::atomic<bool> stop{true};
  request.stop = &stop;
  request.time_limit_s = 60;
  EXPECT_EQ(make_ilp_planner()->plan(small_instance(), request).status, SolveStatus::interrupted);
}

TEST(IlpPlanner, PrintedFormKeepsACutoff) {
  const Instance in = small_instance();
  const double best = make_ilp_planner()->plan(in, {}).objective;
  PlanRequest request;
  request.ilp_form = IlpForm::paper;
  request.cutoff = best * 0.999;
  const PlanResult none = make_ilp_planner()->plan(in, request);
  EXPECT_EQ(none.status, SolveStatus::infeasible);
  EXPECT_EQ(none.violation->constraint, "cutoff");
  request.cutoff = best * 1.001;
  EXPECT_NEAR(make_ilp_planner()->plan(in, request).objective, best, 1e-6 * best);
}

TEST(IlpPlanner, PaperObjectiveSaysHowDecodeWasChosen) {
  Instance in = small_instance();
  in.objective = Objective::paper;
  const PlanResult result = make_ilp_planner()->plan(in, {});
  ASSERT_TRUE(result.candidate);
  EXPECT_EQ(result.candidate->decode_micro_batch_size, 2);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_NE(result.notes[0].find("ceil(B / N) = 2"), std::string::npos);
}

TEST(AssignBits, FindsTheLeastOmega) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    Instance in;
    in.bitwidths = {4, 8, 16};
    in.layer_class.assign(6, 0);
    for (int i = 0; i < 18; ++i) in.omega.push_back(rng.uniform());
    std::vector<std::size_t> any(6), counts(3, 0), bit(6);
    for (std::size_t& b : any) ++counts[b = static_cast<std::size_t>(rng.integer(0, 2))];
    assign_bits(in, {0, 1, 2, 3, 4, 5}, counts, bit);
    const auto omega = [&](const std::vector<std::size_t>& bits) {
      double sum = 0;
      for (std::size_t i = 0; i < 6; ++i) sum += in.omega_at(i, bits[i]);
      return sum;
    };
    std::sort(any.begin(), any.end());
    double least = std::numeric_limits<double>::infinity();
    do least = std::min(least, omega(any));
    while (std::next_permutation(any.begin(), any.end()));
    EXPECT_NEAR(omega(bit), least, 1e-12) << "seed " << seed;
    std::sort(bit.begin(), bit.end());
    EXPECT_EQ(bit, (std::sort(any.begin(), any.end()), any)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::solver::ilp_planner_test
