// Side constraints: the ILP in both forms against an enumeration of every plan, and its programme
// against what files and starts make of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "brute_force.h"
#include "case_name.h"
#include "expect_error.h"
#include "folder.h"
#include "ilp/formulation.h"
#include "ilp/model_file.h"
#include "random_cases.h"
#include "random_instance.h"
#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/ilp/model_dump.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver::constraint_test {
namespace {

using instances::BruteForce;
using instances::for_each_case;
using instances::RandomCase;
using instances::RandomInstance;

// What the rows drawn had in them, of problems with a plan.
struct Tally {
  int optimal = 0, infeasible = 0, rows_blamed = 0, rows_bind = 0;
  int layer_bits = 0, layer_device = 0, boundaries = 0, counts = 0, equalities = 0;
};

void count_terms(const Instance& in, Tally& tally) {
  for (const Row& row : in.rows) {
    tally.equalities += row.sense == Sense::equal ? 1 : 0;
    for (const RowTerm& term : row.terms) {
      tally.layer_bits += term.layer && term.bit ? 1 : 0;
      tally.layer_device += term.layer && !term.any_group() ? 1 : 0;
      tally.boundaries += !term.layer && !term.bit && term.any_group() ? 1 : 0;
      tally.counts += !term.layer && term.bit ? 1 : 0;
    }
  }
}

void compare(const Instance& in, const PlanRequest& request, Tally& tally) {
  const std::optional<double> best = BruteForce(in, request).best();
  Instance free = in;
  free.rows.clear();
  const std::optional<double> without = BruteForce(free, request).best();
  const PlanResult result = make_ilp_planner()->plan(in, request);
  if (!best) {
    EXPECT_EQ(result.status, SolveStatus::infeasible) << "objective " << result.objective;
    ASSERT_TRUE(result.violation);
    EXPECT_EQ(result.violation->constraint == "row", without.has_value())
        << result.violation->message;
    tally.rows_blamed += without ? 1 : 0;
    ++tally.infeasible;
    return;
  }
  ASSERT_EQ(result.status, SolveStatus::optimal)
      << "best " << *best << (result.violation ? " " + result.violation->message : "");
  EXPECT_NEAR(result.objective, *best, 1e-6 * *best);
  const auto violation = find_violation(in, *result.candidate, result.objective);
  EXPECT_FALSE(violation) << violation->message;
  ++tally.optimal;
  tally.rows_bind += *best > *without * (1 + 1e-6) ? 1 : 0;
  count_terms(in, tally);
}

IlpForm form_of(std::uint64_t seed) { return seed % 2 == 0 ? IlpForm::base : IlpForm::tightened; }

TEST(Constraints, MatchEnumerationAtFixedOrder) {
  Tally tally;
  for_each_case(1, 1200, {6, 4, 3, 4}, [&](RandomCase& c) {
    c.in.rows = c.random.rows(c.in);
    PlanRequest request = c.sized(true);
    request.ilp_form = form_of(c.seed);
    compare(c.in, request, tally);
  });
  EXPECT_GE(tally.optimal, 100);
  EXPECT_GE(tally.infeasible, 200);
  EXPECT_GE(tally.rows_blamed, 20);
  EXPECT_GE(tally.rows_bind, 20);
  EXPECT_GE(tally.layer_bits, 10);
  EXPECT_GE(tally.layer_device, 10);
  EXPECT_GE(tally.boundaries, 10);
  EXPECT_GE(tally.counts, 10);
  EXPECT_GE(tally.equalities, 5);
}

TEST(Constraints, MatchEnumerationWithOrderAndPairSearch) {
  Tally tally;
  for_each_case(1001, 1500, {5, 3, 3, 3}, [&](RandomCase& c) {
    c.in.rows = c.random.rows(c.in);
    PlanRequest request;
    request.ilp_form = form_of(c.seed);
    compare(c.in, request, tally);
  });
  EXPECT_GE(tally.optimal, 60);
  EXPECT_GE(tally.rows_blamed, 8);
  EXPECT_GE(tally.rows_bind, 10);
  EXPECT_GE(tally.layer_device, 5);
}

TEST(Constraints, ExactSearchRefusesThemByName) {
  RandomInstance random(3, {});
  Instance in = random.make();
  in.rows = {{"mine", {RowTerm{}}, Sense::at_most, 3}};
  test::expect_error(ErrorCode::unsupported, {"'mine'", "\"ilp\""},
                     [&] { make_exact_planner()->plan(in, {}); });
}

// How far column values are outside the model, in its own units.
double infeasibility(const LinearModel& model, const std::vector<double>& x) {
  double worst = 0;
  for (const LinearModel::Row& row : model.rows) {
    double value = 0, scale = 1;
    for (const auto& [column, coefficient] : row.terms) {
      value += coefficient * x[column];
      scale = std::max(scale, std::fabs(coefficient * x[column]));
    }
    worst = std::max({worst, (row.low - value) / scale, (value - row.high) / scale});
  }
  return worst;
}

TEST(Formulation, HoldsEveryPlanThatTheCheckerAccepts) {
  int encoded = 0;
  for_each_case(2001, 2300, {}, [&](RandomCase& c) {
    c.in.allow_single_stage = false;  // a programme is of several stages, or of an order
    if (c.seed % 3 == 0) c.in.rows = c.random.rows(c.in);
    const PlanRequest request = c.sized(c.seed % 2 == 0);
    const PlanResult result = make_ilp_planner()->plan(c.in, request);
    if (!result.candidate) return;
    const Subproblem problem(c.in, request.order, *request.prefill_micro_batch_size,
                             *request.decode_micro_batch_size);
    const auto bounds = base_bounds(problem, result.objective);
    ASSERT_TRUE(bounds);
    const Formulation formulation(problem, *bounds);
    const auto x = formulation.encode(*result.candidate);
    ASSERT_TRUE(x);
    EXPECT_LE(infeasibility(formulation.model(), *x), 1e-8);
    double cost = formulation.model().constant;
    for (std::size_t i = 0; i < x->size(); ++i) {
      cost += (*x)[i] * formulation.model().columns[i].cost;
    }
    EXPECT_NEAR(formulation.from_model(cost), result.objective, 1e-9 * result.objective);
    const auto back = formulation.decode(*x);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->first_layer, result.candidate->first_layer);
    EXPECT_EQ(back->order, result.candidate->order);
    EXPECT_NEAR(evaluate(c.in, *back).objective, result.objective, 1e-9 * result.objective);
    ++encoded;
  });
  EXPECT_GE(encoded, 80);
}

class ModelFile : public test::FolderTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ModelFile, RoundTripKeepsTheOptimum) {
  const std::string path = this->path(std::string("model") + GetParam());
  int compared = 0, infeasible = 0;
  for_each_case(3001, 3160, {}, [&](RandomCase& c) {
    c.in.allow_single_stage = false;
    if (c.seed % 3 == 0) c.in.rows = c.random.rows(c.in);
    PlanRequest request = c.sized(c.seed % 4 < 2);
    request.ilp_form = form_of(c.seed);
    const PlanResult result = make_ilp_planner()->plan(c.in, request);
    std::filesystem::remove(path);
    const auto violation = write_model(c.in, request, path);
    if (violation) {
      EXPECT_EQ(result.status, SolveStatus::infeasible);
      EXPECT_FALSE(std::filesystem::exists(path));
      ++infeasible;
      return;
    }
    const LinearModel model = read_model_file(path);
    const MipResult mip = solve_mip(model, {});
    EXPECT_TRUE(mip.finished);
    EXPECT_EQ(mip.x.has_value(), result.candidate.has_value());
    if (!mip.x || !result.candidate) return;
    EXPECT_NEAR(mip.objective, result.objective, 2e-6 * result.objective);
    ++compared;
  });
  EXPECT_GE(compared, 25);
  EXPECT_GE(infeasible, 5);
}

INSTANTIATE_TEST_SUITE_P(Formats, ModelFile, ::testing::Values(".lp", ".mps"), test::case_name);

}  // namespace
}  // namespace tessera::solver::constraint_test
