#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "small_instance.h"
#include "tessera/solver/instance/instance.h"

namespace tessera::solver::evaluate_test {
namespace {

using instances::small_candidate;
using instances::small_instance;

TEST(ObjectiveCoefficients, FollowTheTwoObjectives) {
  Instance in = small_instance();
  in.batch_size = 32;
  in.num_chunks = 3;
  in.output_tokens = 100.5;
  const auto paper = objective_coefficients(in, Objective::paper, 6, 11);
  EXPECT_DOUBLE_EQ(paper.prefill_max, 3 * 5);
  EXPECT_DOUBLE_EQ(paper.prefill_sum, 3);
  EXPECT_DOUBLE_EQ(paper.decode_max, 2 * 99.5);
  EXPECT_DOUBLE_EQ(paper.decode_sum, 1);
  EXPECT_DOUBLE_EQ(paper.round, 0);
  const auto steady = objective_coefficients(in, Objective::steady, 6, 11);
  EXPECT_DOUBLE_EQ(steady.prefill_max, 3 * 6 - 1);
  EXPECT_DOUBLE_EQ(steady.prefill_sum, 1);
  EXPECT_DOUBLE_EQ(steady.decode_max, 0);
  EXPECT_DOUBLE_EQ(steady.decode_sum, 0);
  EXPECT_DOUBLE_EQ(steady.round, 99.5);
  EXPECT_DOUBLE_EQ(steady.round_micro_batches, 3);
}

TEST(Evaluate, PricesAPlanWorkedOutByHand) {
  const Instance in = small_instance();
  const Evaluation e = evaluate(in, small_candidate());
  // t = 0.3 s: layers take 0.3, 0.3, 0.6 s on A and 0.6, 0.6, 1.2 s on B.
  ASSERT_EQ(e.stages.size(), 3u);
  EXPECT_NEAR(e.stages[0].prefill_s, 0.6 + 0.3 + 0.3 + 0.1, 1e-12);
  EXPECT_NEAR(e.stages[1].prefill_s, 0.9, 1e-12);
  EXPECT_NEAR(e.stages[2].prefill_s, 1.2 + 0.2, 1e-12);
  EXPECT_NEAR(e.prefill_max_s, 1.4, 1e-12);
  EXPECT_NEAR(e.prefill_sum_s, 3.6, 1e-12);
  EXPECT_NEAR(e.decode_max_s, 0.14, 1e-12);
  EXPECT_NEAR(e.decode_sum_s, 0.36, 1e-12);
  EXPECT_NEAR(e.stages[0].layers_bytes, 8e9, 1);
  EXPECT_NEAR(e.stages[0].fixed_bytes, 0.7e9, 1);
  EXPECT_NEAR(e.stages[2].fixed_bytes, 0.2e9, 1);
  EXPECT_NEAR(e.omega, 0.5 + 0.8, 1e-12);
  EXPECT_NEAR(e.latency_s, 1.4 + 3.6 + 10 * 0.36, 1e-12);  // sum D > 2 Td
  EXPECT_NEAR(e.objective, e.latency_s + 1.3, 1e-12);
}

TEST(Evaluate, SlowLinkSetsTheMaximum) {
  Instance in = small_instance();
  PhaseCosts slow = in.prefill(2);
  slow.link_s = {0, 9, 9, 0};
  in.prefill = [&slow](std::int64_t) -> const PhaseCosts& { return slow; };
  EXPECT_DOUBLE_EQ(evaluate(in, small_candidate()).prefill_max_s, 9);
}

TEST(UsefulMicroBatchSizes, KeepsTheSmallestOfEachCount) {
  Instance in = small_instance();
  EXPECT_EQ(useful_micro_batch_sizes(in), (std::vector<std::int64_t>{1, 2, 4}));
  const auto one = in.prefill(1);
  in.batch_size = 32;
  in.prefill = in.decode = [one](std::int64_t) -> const PhaseCosts& { return one; };
  EXPECT_EQ(useful_micro_batch_sizes(in),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 32}));
}

// Where no cost falls, nobody asks for costs, and the list is that of the definition.
TEST(UsefulMicroBatchSizes, AreTheSmallestWhereCostsAreMonotone) {
  Instance in = small_instance();
  in.prefill =
      in.decode = [](std::int64_t) -> const PhaseCosts& { throw std::logic_error("asked"); };
  in.monotone_costs = true;
  std::vector<std::int64_t> batches{77'777, 131'071, 1'000'000};
  for (std::int64_t batch = 1; batch <= 1500; ++batch) batches.push_back(batch);
  for (const std::int64_t batch : batches) {
    in.batch_size = batch;
    std::vector<std::int64_t> smallest;
    for (std::int64_t size = 1; size <= batch; ++size) {
      const auto count = [batch](std::int64_t s) { return (batch + s - 1) / s; };
      if (size == 1 || count(size) < count(size - 1)) smallest.push_back(size);
    }
    ASSERT_EQ(useful_micro_batch_sizes(in), smallest) << batch;
  }
}

TEST(UsefulMicroBatchSizes, KeepsLargerOnesThatAreCheaper) {
  Instance in = small_instance();
  PhaseCosts cheap = in.decode(3);
  cheap.layer_s[0] = 1e-6;
  in.decode = [cheap, usual = in.decode](std::int64_t size) -> const PhaseCosts& {
    return size == 3 ? cheap : usual(size);
  };
  EXPECT_EQ(useful_micro_batch_sizes(in), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

class Checker : public ::testing::Test {
 protected:
  void expect(const char* constraint) const {
    const auto v = find_violation(in, plan);
    ASSERT_TRUE(v) << "expected " << constraint;
    EXPECT_EQ(v->constraint, constraint) << v->message;
    EXPECT_FALSE(v->message.empty());
  }
  Instance in = small_instance();
  Candidate plan = small_candidate();
};

TEST_F(Checker, AcceptsTheGoodPlanAndItsObjective) {
  EXPECT_FALSE(find_violation(in, plan));
  const double objective = evaluate(in, plan).objective;
  EXPECT_FALSE(find_violation(in, plan, objective));
  const auto v = find_violation(in, plan, objective * (1 + 1e-8));
  ASSERT_TRUE(v);
  EXPECT_EQ(v->constraint, "objective");
  EXPECT_TRUE(find_violation(in, plan, std::nan("")));
}

TEST_F(Checker, FindsDeviceMistakes) {
  plan.order = {0, 0, 7};
  expect("devices");
  plan.order = {0, 1, 1};
  expect("devices");
  plan.order.clear();
  expect("devices");
}

TEST_F(Checker, FindsBoundaryMistakes) {
  for (const std::vector<std::size_t>& first : std::vector<std::vector<std::size_t>>{
           {}, {0, 3, 8}, {1, 3, 6, 8}, {0, 3, 6, 7}, {0, 6, 3, 8}, {0, 3, 99, 8}}) {
    plan.first_layer = first;
    expect("contiguity");
  }
  plan.first_layer = {0, 3, 3, 8};
  expect("empty_stage");
  in.allow_empty_stage = true;
  plan.first_layer = {0, 0, 3, 8};
  expect("empty_stage");
  plan.first_layer = {0, 3, 8, 8};
  expect("empty_stage");
  plan.first_layer = {0, 4, 4, 8};
  plan.bit.assign(8, 0);
  EXPECT_FALSE(find_violation(in, plan));
}

TEST_F(Checker, FindsBitAndSizeMistakes) {
  plan.bit[4] = 3;
  expect("bitwidth");
  plan.bit.pop_back();
  expect("bitwidth");
  plan = small_candidate();
  in.allowed[3] = 0;  // 4 bits on B
  expect("bitwidth");
  in.allowed[3] = 1;
  plan.prefill_micro_batch_size = 5;
  expect("micro_batch");
  plan.prefill_micro_batch_size = 2;
  plan.decode_micro_batch_size = 0;
  expect("micro_batch");
}

TEST_F(Checker, FindsMemoryAndQuality) {
  plan.bit[7] = 2;
  EXPECT_FALSE(find_violation(in, plan));
  plan.bit[6] = 2;
  expect("memory");
  plan = small_candidate();
  in.max_omega = 1.3 / (1 + 1e-7);
  EXPECT_FALSE(find_violation(in, plan)) << "within the slack";
  in.max_omega = 1.3 / (1 + 1e-5);
  expect("quality");
}

}  // namespace
}  // namespace tessera::solver::evaluate_test
