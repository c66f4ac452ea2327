// Experts spread over a group, and attention in parts of it: what a member holds, and what a layer
// takes, against numbers written down by hand.
#include "tessera/cost/group_split.h"

#include <gtest/gtest.h>

#include "devices.h"
#include "shapes.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/price_cache.h"
#include "tessera/cost/stage_price.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::group_split_test {
namespace {

constexpr GroupSplit kSpread{1, 2}, kApart{2, 2}, kApartAndCut{2, 1};

/// Four matrices 4 x 4, and four experts of two matrices 4 x 8, two for each token.
ModelShape toy() {
  LayerShape layer;
  layer.linears = {{"q_proj", 4, 4},
                   {"k_proj", 4, 4},
                   {"v_proj", 4, 4},
                   {"o_proj", 4, 4},
                   {"experts.up_proj", 4, 8, 4, 2},
                   {"experts.down_proj", 8, 4, 4, 2}};
  layer.num_heads = layer.num_kv_heads = 2;
  layer.head_dim = 2;
  return test::untied("toy", 2, 4, 8, 10, std::move(layer));
}

/// One byte a second and no arithmetic: seconds of a device are bytes.
PricingContext context(const GroupSplit& split) {
  PricingContext context;
  context.model = toy();
  context.split = split;
  context.kernel_set.name = "bytes";
  context.kernel_set.attention_flop_ratio = context.kernel_set.attention_memory_ratio = 1;
  KernelRule rule;
  rule.bitwidth = 16;
  rule.flop_ratio = rule.memory_ratio = 1;
  context.kernel_set.rules.push_back(rule);
  context.cluster.nodes.resize(1);
  for (int i = 0; i < 2; ++i) {
    context.cluster.devices.push_back({test::device("slow", 16, 1e-9, 1e21, 8), 0});
    context.cluster.devices.back().device.pcie_bytes_per_s = 16;
  }
  return context;
}

Link link() { return slowest_link(context({}).cluster, {0, 1}, {0, 1}); }

double sum_s(double bytes) { return all_reduce_s(bytes, 2, link()); }

/// Before the experts and behind them.
double exchange_s(double bytes) {
  double seconds = 0;
  for (const Op op : {Op::all_gather, Op::reduce_scatter}) {
    OpQuery query;
    query.op = op;
    query.bytes = bytes;
    query.num_devices = 2;
    seconds += modelled_collective(query, link()).seconds.value;
  }
  return seconds;
}

constexpr LayerWork kDecode{Phase::decode, 3, 1, 5};

// Two experts are here, and a token visits one of them on average: of three rows 2 (1 - 1 / 2^3)
// of them get one. A vector of 4 and one of 8 for each row and matrix.
constexpr double kSpreadExperts_s = 2 * (1.75 * 64 + 3 * 24);

TEST(GroupSplit, SpreadExpertsAreReadWhereTheyAre) {
  const PricingContext of = context(kSpread);
  const auto price = make_stage_price(of, {0, 1}, 16);
  const LayerShape& layer = of.model.layer_classes[0];
  EXPECT_DOUBLE_EQ(price->experts_s(layer, 16, kDecode), kSpreadExperts_s);
  // Attention as before: half of each matrix and of the heads; a sum behind it and one behind the
  // experts, of three hidden states.
  const double attention = 4 * (16 + 3 * 12) + 3 * ((5 + 2) * 8 + 8);
  EXPECT_NEAR(price->layer_s(layer, 16, kDecode), attention + kSpreadExperts_s + 2 * sum_s(24),
              1e-9);
}

// The larger part has two of the three requests, with whole matrices and heads; experts have all.
TEST(GroupSplit, PartsHaveAttentionOfTheirOwnRequests) {
  const PricingContext of = context(kApart);
  const auto price = make_stage_price(of, {0, 1}, 16);
  const LayerShape& layer = of.model.layer_classes[0];
  const double attention = 2 * ((5 + 2) * 16 + 16);
  EXPECT_DOUBLE_EQ(price->attention_s(layer, 16, kDecode), attention);
  const double experts = kSpreadExperts_s + exchange_s(24);
  EXPECT_NEAR(price->experts_s(layer, 16, kDecode), experts, 1e-9);
  EXPECT_NEAR(price->layer_s(layer, 16, kDecode), 4 * (32 + 2 * 16) + attention + experts, 1e-9);
  // A prompt is whole on one part.
  const LayerWork chunk{Phase::prefill, 1, 6, 0};
  EXPECT_DOUBLE_EQ(price->attention_s(layer, 16, chunk), 2 * 6 * 16 + 2 * 6 * 8);
}

TEST(GroupSplit, CutExpertsMayHaveTheRowsOfAllParts) {
  const PricingContext of = context(kApartAndCut);
  const LayerShape& layer = of.model.layer_classes[0];
  // Half of each of 4 (1 - 1 / 2^3) experts; of the rows' vectors those of the inner size are half.
  const double experts = 2 * (3.5 * 32 + 3 * 2 * 16);
  EXPECT_NEAR(make_stage_price(of, {0, 1}, 16)->experts_s(layer, 16, kDecode),
              experts + exchange_s(24), 1e-9);
}

// What members hold together: experts once either way, of attention each part a copy.
TEST(GroupSplit, MembersHoldExpertsOnce) {
  const ModelShape whole = toy();
  const double attention = 4 * 16, all_experts = 2 * 4 * 32;
  const auto parameters = [&](const GroupSplit& split) {
    return static_cast<double>(shard(whole, 2, split).layer_classes[0].linear_parameters());
  };
  EXPECT_DOUBLE_EQ(2 * parameters({}), attention + all_experts);
  EXPECT_DOUBLE_EQ(2 * parameters(kSpread), attention + all_experts);
  EXPECT_DOUBLE_EQ(2 * parameters(kApart), 2 * attention + all_experts);
  EXPECT_DOUBLE_EQ(2 * parameters(kApartAndCut), 2 * attention + all_experts);
  // Keys and values: of all heads for half of the requests, or half of the heads for all.
  EXPECT_EQ(shard(whole, 2, kApart).layer_classes[0].num_kv_heads, 2);
  EXPECT_EQ(shard(whole, 2, kSpread).layer_classes[0].num_kv_heads, 1);
}

TEST(GroupSplit, SaysWhyAGroupCannotBeSplit) {
  const ModelShape model = toy();
  EXPECT_EQ(why_not_sharded(model, 2, kApart), std::nullopt);
  EXPECT_EQ(why_not_sharded(model, 4, {4, 4}), std::nullopt);  // two heads, which no part cuts
  EXPECT_EQ(why_not_sharded(model, 4, {1, 4}).value(), "2 heads do not divide by 4");
  EXPECT_EQ(why_not_sharded(model, 8, {8, 8}).value(), "4 experts do not divide by 8");
  EXPECT_EQ(why_not_sharded(model, 2, {1, 4}).value(), "2 devices make no 4 parts of one size");
  EXPECT_EQ(why_not_sharded(test::opt_13b(), 2, kSpread).value(),
            test::opt_13b().name + " has no experts");
}

TEST(GroupSplit, PricesOfOneSplitAreNotAnothers) {
  const std::vector<std::size_t> members = {0, 1};
  EXPECT_NE(group_key(context(kSpread), members, 16), group_key(context({}), members, 16));
  EXPECT_EQ(group_key(context(kSpread), members, 16), group_key(context(kSpread), members, 16));
}

}  // namespace
}  // namespace tessera::cost::group_split_test
