// LLM-PQ's Algorithm 2 as printed, on pipelines that can be worked out by hand.

#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver::bitwidth_transfer_test {
namespace {

// Three devices that take 1, 3 and 10 s for a layer, whatever its bitwidth; layers of 4 bits hold
// 1 GB, of 8 bits 2 GB.
Instance three_devices() {
  Instance in;
  in.name = "three";
  in.bitwidths = {4, 8};
  in.groups = {{"fast", "n0", 1, 6e9}, {"middle", "n1", 1, 6e9}, {"slow", "n2", 1, 4e9}};
  in.layer_class.assign(9, 0);
  in.layer_bytes = {1e9, 2e9};
  in.allowed.assign(6, 1);
  for (int i = 0; i < 9; ++i) in.omega.insert(in.omega.end(), {0.02, 0.01});
  in.theta = 0.001;
  const auto costs = [](std::vector<double> layer_s) {
    auto table = std::make_shared<PhaseCosts>();
    table->layer_s = std::move(layer_s);
    table->first_s = table->last_s = {0, 0, 0};
    table->link_s.assign(9, 0);
    return [table](std::int64_t) -> const PhaseCosts& { return *table; };
  };
  in.prefill = costs({1, 1, 3, 3, 10, 10});
  in.decode = costs({0, 0, 0, 0, 0, 0});
  return in;
}

Candidate plan_of(std::vector<std::size_t> first_layer, std::vector<std::size_t> bit) {
  Candidate c;
  c.order = {0, 1, 2};
  c.first_layer = std::move(first_layer);
  c.bit = std::move(bit);
  return c;
}

Candidate improved(const Instance& in, Candidate start, TransferRules rules) {
  PlanSearch search(in, std::move(start), {});
  make_bitwidth_transfer(rules)->improve(search);
  return search.best();
}

std::int64_t num_of(const Candidate& c, std::size_t stage, std::size_t bit) {
  const auto begin = c.bit.begin();
  return std::count(begin + static_cast<std::ptrdiff_t>(c.first_layer[stage]),
                    begin + static_cast<std::ptrdiff_t>(c.first_layer[stage + 1]), bit);
}

// The rule (4, 8, 2), twice: two layers of 4 bits of the slow device for one of 8 bits of the fast
// one. Then the slow device has no 4 bits left, and no rule applies.
TEST(BitwidthTransferAsPrinted, ExchangesOnePioneerLayerForThoseThatWeighAsMuch) {
  const Candidate end = improved(
      three_devices(), plan_of({0, 3, 5, 9}, {1, 1, 1, 0, 0, 0, 0, 0, 0}), TransferRules::printed);
  EXPECT_EQ(end.first_layer, (std::vector<std::size_t>{0, 5, 7, 9}));
  EXPECT_EQ(num_of(end, 0, 1), 1);
  EXPECT_EQ(num_of(end, 1, 0), 2);
  EXPECT_EQ(num_of(end, 2, 1), 2);
}

// "for pi in K[:-2]": the middle device, which alone has layers of 8 bits, is the second slowest.
TEST(BitwidthTransferAsPrinted, LeavesTheSecondSlowestStageOut) {
  const Candidate start = plan_of({0, 2, 5, 9}, {0, 0, 1, 1, 1, 0, 0, 0, 0});
  const Candidate end = improved(three_devices(), start, TransferRules::printed);
  EXPECT_EQ(end.first_layer, start.first_layer);
  EXPECT_EQ(end.bit, start.bit);
  EXPECT_NE(improved(three_devices(), start, TransferRules::extended).first_layer,
            start.first_layer);
}

TEST(BitwidthTransferAsPrinted, NeedsRoomOnBothSides) {
  Instance in = three_devices();
  in.layer_bytes = {1.2e9, 2e9};  // a KV cache on top: two layers of 4 bits outweigh one of 8
  in.groups[2].usable_bytes = 5e9;
  const Candidate start = plan_of({0, 3, 5, 9}, {1, 1, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(improved(in, start, TransferRules::printed).first_layer, start.first_layer);
  in.groups[0].usable_bytes = 6.4e9;
  EXPECT_EQ(improved(in, start, TransferRules::printed).first_layer,
            (std::vector<std::size_t>{0, 4, 6, 9}));
}

}  // namespace
}  // namespace tessera::solver::bitwidth_transfer_test
