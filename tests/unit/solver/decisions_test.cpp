// Bindings, latency factors, mix bounds and moves on an instance that can be worked out by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "replan/assignment.h"
#include "replan/orders.h"
#include "small_instance.h"
#include "tessera/core/rng.h"
#include "tessera/solver/instance/mix_bound.h"
#include "tessera/solver/plan/binding.h"
#include "tessera/solver/plan/what_if.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver::decisions_test {
namespace {

using instances::small_candidate;
using instances::small_instance;

const Binding* find(const std::vector<Binding>& bindings, const std::string& kind,
                    const std::string& phase = "") {
  for (const Binding& b : bindings) {
    if (b.kind == kind && b.phase == phase) return &b;
  }
  return nullptr;
}

TEST(Bindings, NameTheSlowestStageOfEachPhase) {
  const Instance in = small_instance();
  const Candidate plan = small_candidate();
  const Evaluation e = evaluate(in, plan);
  const auto bindings = find_bindings(in, plan);
  const Binding* prefill = find(bindings, "straggler", "prefill");
  ASSERT_NE(prefill, nullptr);
  const auto slower = [](const StageEvaluation& a, const StageEvaluation& b) {
    return a.prefill_s < b.prefill_s;
  };
  EXPECT_EQ(*prefill->stage,
            static_cast<std::size_t>(std::max_element(e.stages.begin(), e.stages.end(), slower) -
                                     e.stages.begin()));
  const auto c = objective_coefficients(in, in.objective, plan.prefill_micro_batch_size,
                                        plan.decode_micro_batch_size);
  EXPECT_DOUBLE_EQ(prefill->seconds, c.prefill_max * e.prefill_max_s);
}

TEST(Bindings, KnowLinksMicroBatchesMemoryAndQuality) {
  Instance in = small_instance();
  Candidate plan = small_candidate();
  plan.prefill_micro_batch_size = 4;  // one micro-batch goes through three stages
  const auto alone = find_bindings(in, plan);
  ASSERT_NE(find(alone, "micro_batch", "prefill"), nullptr);
  EXPECT_DOUBLE_EQ(find(alone, "micro_batch", "prefill")->seconds,
                   evaluate(in, plan).prefill_sum_s);
  EXPECT_EQ(find(alone, "straggler", "prefill"), nullptr);
  plan.prefill_micro_batch_size = 1;
  plan.decode_micro_batch_size = 4;  // one micro-batch goes round three stages
  EXPECT_NE(find(find_bindings(in, plan), "micro_batch", "decode"), nullptr);
  plan.decode_micro_batch_size = 1;
  EXPECT_NE(find(find_bindings(in, plan), "straggler", "decode"), nullptr);
  EXPECT_EQ(find(find_bindings(in, plan), "quality"), nullptr);
  // omega of the plan is 1.3; the smallest step is 0.1 (16 to 8 bits).
  in.max_omega = evaluate(in, plan).omega + 0.05;
  EXPECT_NE(find(find_bindings(in, plan), "quality"), nullptr);
  in.max_omega = evaluate(in, plan).omega + 0.15;
  EXPECT_EQ(find(find_bindings(in, plan), "quality"), nullptr);
  // Stage 1 holds three layers of 2 GB; the smallest step is one layer at 4 bits, 1 GB.
  const double used =
      evaluate(in, plan).stages[1].layers_bytes + evaluate(in, plan).stages[1].fixed_bytes;
  in.groups[0].usable_bytes = used + 0.99e9;
  const auto full = find_bindings(in, plan);
  const Binding* memory = nullptr;
  for (const Binding& b : full) {
    if (b.kind == "memory" && b.stage == 1) memory = &b;
  }
  ASSERT_NE(memory, nullptr);
  EXPECT_NEAR(memory->left_bytes, 0.99e9, 1);
  in.groups[0].usable_bytes = used + 1.01e9;
  for (const Binding& b : find_bindings(in, plan)) EXPECT_FALSE(b.kind == "memory" && b.stage == 1);
  const auto slow = in.prefill;
  PhaseCosts costs = slow(plan.prefill_micro_batch_size);
  costs.link_s[0 * 2 + 1] = 100;
  in.prefill = [&costs](std::int64_t) -> const PhaseCosts& { return costs; };
  const Binding* link = nullptr;
  const auto bindings = find_bindings(in, plan);
  link = find(bindings, "link", "prefill");
  ASSERT_NE(link, nullptr);
  EXPECT_EQ(*link->stage, 1u);
}

TEST(LatencyFactors, ScaleEveryLayerAndNothingElse) {
  const Instance in = small_instance();
  const LatencyFactors none = draw_latency_factors(in, 0, 7);
  for (const double f : none.prefill) EXPECT_DOUBLE_EQ(f, 1);
  const LatencyFactors factors = draw_latency_factors(in, 0.2, 7);
  EXPECT_EQ(factors.prefill, draw_latency_factors(in, 0.2, 7).prefill);
  EXPECT_NE(factors.prefill, draw_latency_factors(in, 0.2, 8).prefill);
  EXPECT_NE(factors.prefill, factors.decode);
  const Instance changed = with_latency_factors(in, factors);
  for (std::int64_t size = 1; size <= 4; ++size) {
    const PhaseCosts &a = in.prefill(size), &b = changed.prefill(size);
    EXPECT_EQ(&b, &changed.prefill(size));  // references stay valid
    EXPECT_EQ(a.first_s, b.first_s);
    EXPECT_EQ(a.link_s, b.link_s);
    for (std::size_t g = 0; g < 2; ++g) {
      for (std::size_t bit = 0; bit < 3; ++bit) {
        EXPECT_DOUBLE_EQ(in.layer_s(a, g, 0, bit) * factors.prefill[3 * g + bit],
                         changed.layer_s(b, g, 0, bit));
      }
    }
  }
}

TEST(LatencyFactors, AreLogNormalAndSharedByTypes) {
  Instance in = small_instance();
  in.groups[1].name = in.groups[0].name;  // the same type on another node
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const LatencyFactors f = draw_latency_factors(in, 0.3, static_cast<std::uint64_t>(i));
    for (std::size_t bit = 0; bit < 3; ++bit) EXPECT_EQ(f.prefill[bit], f.prefill[3 + bit]);
    sum += std::log(f.prefill[0]);
    squares += std::log(f.prefill[0]) * std::log(f.prefill[0]);
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.02);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 0.3, 0.02);
}

TEST(MixBound, HoldsMemoryAndFloorAsAWhole) {
  Instance in = small_instance();  // A: 12 GB, B: 6 GB; 8 layers of 1, 2, 4 GB; 0.5 GB embeddings
  EXPECT_TRUE(std::isinf(MixBound(in).latency_s({0, 0})));
  EXPECT_TRUE(std::isinf(MixBound(in).latency_s({0, 1})));  // 8.5 GB at 4 bits
  EXPECT_TRUE(std::isfinite(MixBound(in).latency_s({1, 0})));
  in.max_omega = 8 * 0.1;  // 8 bits throughout: 16.5 GB
  EXPECT_TRUE(std::isinf(MixBound(in).latency_s({1, 0})));
  EXPECT_TRUE(std::isfinite(MixBound(in).latency_s({1, 1})));
}

Holding holding(std::string device, std::string node, std::size_t first,
                std::vector<std::int32_t> bits, bool is_first = false, bool is_last = false) {
  return {std::move(device), std::move(node), first, std::move(bits), is_first, is_last};
}

TEST(Moves, CountLayersBitwidthsAndEmbeddings) {
  const Instance in = small_instance();
  const Candidate plan = small_candidate();  // A 16 8 8 | A 8 8 8 | B 4 4
  WeightBytes weights{{1e9, 2e9, 4e9}, {0, 0.5e9, 0, 0.5e9}};
  // The A devices swapped roles, one layer had other bits, B held one layer of two.
  const std::vector<Holding> holdings{holding("A", "n0", 3, {8, 8, 4}),
                                      holding("A", "n0", 0, {16, 8, 8}, true),
                                      holding("B", "n1", 7, {4}, false, true)};
  const Moves moves = count_moves(in, plan, holdings, weights);
  EXPECT_EQ(moves.from[0], std::optional<std::size_t>(1));
  EXPECT_EQ(moves.from[1], std::optional<std::size_t>(0));
  EXPECT_EQ(moves.from[2], std::optional<std::size_t>(2));
  EXPECT_DOUBLE_EQ(moves.moved_bytes, 2e9 + 1e9);
  EXPECT_EQ(moves.moved_layers, 2);
  EXPECT_DOUBLE_EQ(moves.kept_bytes, 0.5e9 + 8e9 + 4e9 + 1e9);
  const Moves none = count_moves(in, plan, {}, weights);
  EXPECT_EQ(none.moved_layers, 8);
  EXPECT_DOUBLE_EQ(none.moved_bytes, moves.moved_bytes + moves.kept_bytes);
  // Layers 5 (as 8 bits) and 6 are held by nobody, but 5 is at 4 bits: only 6 has to be loaded.
  EXPECT_DOUBLE_EQ(least_moved_bytes(in, holdings, weights), 1e9);
}

TEST(Moves, BoundKnowsThatADeviceIsGone) {
  Instance in = small_instance();
  in.groups[0].count = 1;
  const WeightBytes weights{{1e9, 2e9, 4e9}, {}};
  const std::vector<Holding> holdings{holding("A", "n0", 0, {16, 8, 8}, true),
                                      holding("A", "n0", 3, {8, 8}),
                                      holding("B", "n1", 5, {4, 4, 4})};
  EXPECT_DOUBLE_EQ(least_moved_bytes(in, holdings, weights), 2e9);  // the second A, at 4 bits
}

TEST(Orders, TakeOutAndPutIn) {
  Instance in = small_instance();  // two A, one B
  const std::vector<Holding> three{holding("A", "n0", 0, {4}), holding("B", "n1", 1, {4}),
                                   holding("A", "n0", 2, {4})};
  EXPECT_EQ(replan_detail::settings_of(in, three, 48).size(), 1u);
  in.groups[0].count = 1;
  EXPECT_EQ(replan_detail::settings_of(in, three, 48).size(), 2u);  // either A
  in.groups[0].count = 3;
  // Idle, or at one of four places; beside its like it is the same group but another holding.
  EXPECT_EQ(replan_detail::settings_of(in, three, 48).size(), 5u);
  EXPECT_EQ(replan_detail::settings_of(in, three, 2).size(), 2u);
}

TEST(Assignment, IsTheBestPermutation) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    const auto rows = static_cast<std::size_t>(rng.integer(0, 5));
    const auto columns = static_cast<std::size_t>(rng.integer(rows == 0 ? 0 : 1, 5));
    std::vector<std::vector<double>> gain(rows, std::vector<double>(columns));
    for (auto& row : gain) {
      for (double& g : row) g = static_cast<double>(rng.integer(0, 6));
    }
    const auto chosen = replan_detail::best_assignment(gain);
    double total = 0;
    std::vector<bool> used(columns, false);
    for (std::size_t r = 0; r < rows; ++r) {
      if (chosen[r] < 0) continue;
      const auto c = static_cast<std::size_t>(chosen[r]);
      EXPECT_FALSE(used[c]);
      used[c] = true;
      total += gain[r][c];
    }
    const std::size_t n = std::max(rows, columns);
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    double best = 0;
    do {
      double sum = 0;
      for (std::size_t r = 0; r < rows; ++r) sum += order[r] < columns ? gain[r][order[r]] : 0;
      best = std::max(best, sum);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_DOUBLE_EQ(total, best) << "round " << round;
  }
}

}  // namespace
}  // namespace tessera::solver::decisions_test
