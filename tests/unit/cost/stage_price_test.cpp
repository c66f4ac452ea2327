// What a pass takes on a stage, by part, against numbers written down by hand.
#include "tessera/cost/stage_price.h"

#include <gtest/gtest.h>

#include <limits>

#include "devices.h"
#include "expect_error.h"
#include "shapes.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/device_group.h"
#include "tessera/cost/price_cache.h"

namespace tessera::cost::stage_price_test {
namespace {

using test::expect_error;

/// Four layers of four matrices 4 x 4 and two of 4 x 8; 10 words.
ModelShape toy() {
  LayerShape layer;
  layer.linears = {{"q_proj", 4, 4}, {"k_proj", 4, 4},  {"v_proj", 4, 4},
                   {"o_proj", 4, 4}, {"up_proj", 4, 8}, {"down_proj", 8, 4}};
  layer.num_heads = layer.num_kv_heads = 2;
  layer.head_dim = 2;
  ModelShape model = test::untied("toy", 4, 4, 8, 10, std::move(layer));
  model.layer_classes.push_back(model.layer_classes.front());
  for (std::size_t i = 4; i < 6; ++i) {
    LinearShape& expert = model.layer_classes[1].linears[i];
    expert.num_copies = 4;
    expert.num_active = 2;
  }
  return model;
}

/// One byte a second and no arithmetic: seconds of a device are bytes.
PricingContext context() {
  PricingContext context;
  context.model = toy();
  context.kernel_set.name = "bytes";
  context.kernel_set.attention_flop_ratio = context.kernel_set.attention_memory_ratio = 1;
  for (const std::int32_t bitwidth : {8, 16}) {
    KernelRule rule;
    rule.bitwidth = bitwidth;
    rule.flop_ratio = rule.memory_ratio = 1;
    context.kernel_set.rules.push_back(rule);
  }
  context.kernel_set.host_step_s = 2;
  context.kernel_set.host_sequence_s = 0.5;
  context.kernel_set.host_prompt_s = 0.25;
  context.cluster.nodes.resize(2);
  for (const std::size_t node : {0U, 0U, 1U}) {
    context.cluster.devices.push_back({test::device("slow", 16, 1e-9, 1e21, 8), node});
    context.cluster.devices.back().device.pcie_bytes_per_s = 16;
  }
  context.cluster.network_bytes_per_s = 4;
  context.cluster.network_latency_s = 7;
  return context;
}

constexpr LayerWork kDecode{Phase::decode, 3, 1, 5};
constexpr LayerWork kChunk{Phase::prefill, 2, 3, 1};

// Weights 256 bytes; activations in and out of the matrices 112 bytes a row; keys and values of the
// context and of the new token twice, 16 bytes a token, query and output 16 bytes.
constexpr double kDecodeLayer_s = 256 + 3 * 112 + 3 * ((5 + 2) * 16 + 16);
constexpr double kChunkLayer_s = 256 + 6 * 112 + 2 * ((1 + 6) * 16 + 3 * 16);
// A row of the table and the hidden state; parameters of the head and the norm, and for each row
// its hidden state and FP32 logits.
constexpr double kEmbeddingRow_s = 16, kHead_s = 88, kHeadRow_s = 48;

TEST(StagePrice, PartsOfALayerByHand) {
  const PricingContext of = context();
  const LayerShape& layer = of.model.layer_classes[0];
  const auto price = make_stage_price(of, {0}, 16);
  EXPECT_DOUBLE_EQ(price->layer_s(layer, 16, kDecode), kDecodeLayer_s);
  EXPECT_DOUBLE_EQ(price->layer_s(layer, 16, kChunk), kChunkLayer_s);
  EXPECT_DOUBLE_EQ(price->attention_s(layer, 16, kDecode), 3 * ((5 + 2) * 16 + 16));
  // 8 bits: a byte a weight, and three for scale and zero point of each of 32 columns.
  const double weights = 128 + 3 * (4 * 4 + 8 + 4);
  EXPECT_DOUBLE_EQ(price->layer_s(layer, 8, kDecode), kDecodeLayer_s - 256 + weights);
  // Keys and values of 8 bits.
  EXPECT_DOUBLE_EQ(make_stage_price(of, {0}, 8)->layer_s(layer, 16, kDecode),
                   kDecodeLayer_s - 3 * (5 + 2) * 8);
}

// What 8 bits save of up_proj and of o_proj, by hand: bytes of the weights less scales, zero points
// and codes.
TEST(StagePrice, MatricesThatACheckpointKeepsTakeTheirSixteenBits) {
  PricingContext of = context();
  const LayerShape& layer = of.model.layer_classes[0];
  const auto seconds = [&](std::int32_t bitwidth) {
    return make_stage_price(of, {0}, 16)->layer_s(layer, bitwidth, kDecode);
  };
  const double whole = seconds(8), full = seconds(16);
  const double up = 64 - (32 + 3 * 8), output = 32 - (16 + 3 * 4);
  of.model.checkpoint_kept = {{"up_proj", 1}};
  EXPECT_DOUBLE_EQ(seconds(8), whole + up);
  of.model.checkpoint_kept = {{"up_proj", 1}, {"o_proj", 0.25}};
  EXPECT_DOUBLE_EQ(seconds(8), whole + up + 0.25 * output);
  EXPECT_DOUBLE_EQ(seconds(16), full);
  of.model.checkpoint_kept.clear();
  for (const LinearShape& linear : layer.linears)
    of.model.checkpoint_kept.push_back({linear.name, 1});
  EXPECT_DOUBLE_EQ(seconds(8), full);
}

TEST(StagePrice, ExpertsThatTheRowsTouchAreRead) {
  const PricingContext of = context();
  // Two of four experts for each of three rows: 4 (1 - 1 / 2^3) = 3.5 of each matrix, and two
  // vectors in and out for each row.
  const double experts = 2 * (3.5 * 64 + 3 * 2 * 24);
  EXPECT_DOUBLE_EQ(make_stage_price(of, {0}, 16)->layer_s(of.model.layer_classes[1], 16, kDecode),
                   128 + 3 * 64 + experts + 3 * ((5 + 2) * 16 + 16));
}

// A prompt's layer takes no less than its launches, but within the CUDA graphs; decoding has
// graphs.
TEST(StagePrice, LayersOfPromptsTakeTheirLaunchesAtLeast) {
  PricingContext of = context();
  of.kernel_set.host_prompt_layer_s = 5000;
  of.kernel_set.host_prompt_experts_s = 7000;
  const LayerShape &dense = of.model.layer_classes[0], &experts = of.model.layer_classes[1];
  const auto seconds = [&](const LayerShape& layer, const LayerWork& work) {
    return make_stage_price(of, {0}, 16)->layer_s(layer, 16, work);
  };
  EXPECT_DOUBLE_EQ(seconds(dense, kChunk), 5000);
  EXPECT_DOUBLE_EQ(seconds(experts, kChunk), 7000);
  EXPECT_DOUBLE_EQ(seconds(dense, kDecode), kDecodeLayer_s);
  of.kernel_set.host_prompt_layer_s = kChunkLayer_s / 2;
  EXPECT_DOUBLE_EQ(seconds(dense, kChunk), kChunkLayer_s);
  of.kernel_set.host_prompt_layer_s = 5000;
  of.kernel_set.graph_batch_sizes = {1, 6};
  EXPECT_DOUBLE_EQ(seconds(dense, kChunk), kChunkLayer_s);
  of.kernel_set.graph_batch_sizes = {1, 5};
  EXPECT_DOUBLE_EQ(seconds(dense, kChunk), 5000);
}

// 10 bytes for each of six tokens at half of a byte a second, of one device and of two alike; with
// attention in two parts three tokens each. Decoding and layers without experts have none.
TEST(StagePrice, SortingForExpertsIsSharedByNobody) {
  PricingContext of = context();
  const auto more_s = [&](const std::vector<std::size_t>& members, std::size_t kind,
                          const LayerWork& work) {
    const LayerShape& layer = of.model.layer_classes[kind];
    const auto layer_s = [&](double bytes) {
      of.kernel_set.rules[1].experts_token_bytes = bytes;
      return make_stage_price(of, members, 16)->layer_s(layer, 16, work);
    };
    return layer_s(10) - layer_s(0);
  };
  for (KernelRule& rule : of.kernel_set.rules) rule.memory_ratio = 0.5;
  EXPECT_NEAR(more_s({0}, 1, kChunk), 6 * 10 / 0.5, 1e-9);
  EXPECT_NEAR(more_s({0, 1}, 1, kChunk), 6 * 10 / 0.5, 1e-9);
  EXPECT_NEAR(more_s({0}, 0, kChunk), 0, 1e-9);
  EXPECT_NEAR(more_s({0}, 1, kDecode), 0, 1e-9);
  of.split.attention_data_parallel = 2;
  EXPECT_NEAR(more_s({0, 1}, 1, kChunk), 3 * 10 / 0.5, 1e-9);
  const auto price = make_stage_price(of, {0}, 16);
  of.kernel_set.rules[1].experts_token_bytes = 10;
  EXPECT_NEAR(make_stage_price(of, {0}, 16)->experts_s(of.model.layer_classes[1], 16, kChunk) -
                  price->experts_s(of.model.layer_classes[1], 16, kChunk),
              3 * 10 / 0.5, 1e-9);
}

// Products of a row: 4 matrices of 16 and 2 of 32 weights, 256 operations; experts 2 of 4, twice as
// many of the last two.
TEST(StagePrice, ArithmeticSlowsDownOnceClocksHaveSettled) {
  PricingContext of = context();
  for (auto& device : of.cluster.devices) {
    device.device.flop_per_s["fp16"] = 32;
    device.device.memory_bytes_per_s = 1e12;
  }
  const auto seconds = [&](double ratio, const std::vector<std::size_t>& members,
                           std::size_t kind) {
    for (auto& device : of.cluster.devices) device.device.sustained_flop_ratio = ratio;
    return make_stage_price(of, members, 16)->layer_s(of.model.layer_classes[kind], 16, kChunk);
  };
  EXPECT_NEAR(seconds(0.8, {0}, 0) - seconds(1, {0}, 0), 6 * 256.0 / 32 * 0.25, 1e-9);
  EXPECT_NEAR(seconds(0.8, {0, 1}, 0) - seconds(1, {0, 1}, 0), 3 * 256.0 / 32 * 0.25, 1e-9);
  EXPECT_NEAR(seconds(0.8, {0}, 1) - seconds(1, {0}, 1), 6 * 384.0 / 32 * 0.25, 1e-9);
}

TEST(StagePrice, AGroupHoldsHalfAndSumsTwice) {
  const PricingContext of = context();
  const LayerShape& layer = of.model.layer_classes[0];
  const double half = 128 + 3 * 80 + 3 * ((5 + 2) * 8 + 8);
  const Link link = slowest_link(of.cluster, {0, 1}, {0, 1});
  EXPECT_DOUBLE_EQ(make_stage_price(of, {0, 1}, 16)->layer_s(layer, 16, kDecode),
                   half + 2 * all_reduce_s(3 * 4 * 2, 2, link));
}

// Half of attention (see above) stays, half goes there: Q, K and V of a head for each of three
// rows, and the output back. Neither waits for the other.
TEST(StagePrice, HeadsElsewhereTakeTheLongerOfBoth) {
  PricingContext of = context();
  const LayerShape& layer = of.model.layer_classes[0];
  const double half = 3 * ((5 + 2) * 8 + 8), rest = kDecodeLayer_s - 2 * half;
  const double link_s = 7 + 36 / 4.0 + 7 + 12 / 4.0;
  const AttentionElsewhere to{2, 0.5};  // on the other node
  const auto price = make_stage_price(of, {0}, 16, {}, to);
  EXPECT_DOUBLE_EQ(price->attention_s(layer, 16, kDecode), half + link_s);
  EXPECT_DOUBLE_EQ(price->layer_s(layer, 16, kDecode), rest + half + link_s);
  EXPECT_DOUBLE_EQ(make_device_attender(of, 0, 2, 16)->link_s(moved_of(layer, 0.5), kDecode),
                   link_s);
  of.cluster.devices[2].device.memory_bytes_per_s = 1e6;
  of.cluster.network_latency_s = 0;
  EXPECT_DOUBLE_EQ(make_stage_price(of, {0}, 16, {}, to)->layer_s(layer, 16, kDecode), rest + half);
  // Both heads there: all waits for the link.
  EXPECT_NEAR(
      make_stage_price(of, {0}, 16, {}, AttentionElsewhere{2, 1})->layer_s(layer, 16, kDecode),
      rest + (72 + 24) / 4.0, 1e-3);
  EXPECT_DOUBLE_EQ(make_stage_price(of, {0}, 16, {2, 0}, to)->attention_s(layer, 16, kDecode),
                   2 * half);
  EXPECT_NE(group_key(of, {0}, 16, {}, to), group_key(of, {0}, 16));
  EXPECT_NE(group_key(of, {0}, 16, {}, to), group_key(of, {0}, 16, {}, AttentionElsewhere{2, 1}));
}

TEST(StagePrice, TheHostAttendsAtItsRate) {
  const PricingContext of = context();
  const LayerShape& layer = of.model.layer_classes[0];
  const auto host = make_host_attender({}, 4);
  EXPECT_DOUBLE_EQ(host->attention_s(layer, kDecode), 3 * 5 * 16 / 4.0);
  EXPECT_DOUBLE_EQ(host->link_s(layer, kDecode), 0);
}

TEST(StagePrice, HeadsElsewhereAreWhole) {
  LayerShape layer = toy().layer_classes[0];
  layer.num_heads = 32;
  layer.num_kv_heads = 8;
  EXPECT_EQ(kv_heads_elsewhere(layer, 0.3), 2);
  EXPECT_EQ(moved_of(layer, 0.3).num_heads, 8);
  EXPECT_EQ(kept_of(layer, 0.3).num_kv_heads, 6);
  EXPECT_EQ(kept_of(layer, 1).num_kv_heads, 0);
  EXPECT_EQ(kept_of(layer, 0), layer);
}

// Shards are equal: the time of the slower, whose sums nobody has measured, and the room of the
// smaller.
TEST(StagePrice, AnUnlikeGroupIsAsItsSlowestAndItsSmallest) {
  PricingContext of = context();
  of.cluster.devices.push_back({test::device("fast", 8, 4e-9, 1e21, 8), 0});
  of.cluster.devices.back().device.pcie_bytes_per_s = 16;
  const LayerShape& layer = of.model.layer_classes[0];
  const auto slow = make_stage_price(of, {0, 1}, 16);
  for (const std::vector<std::size_t>& members : {std::vector<std::size_t>{0, 3}, {3, 0}}) {
    const auto both = make_stage_price(of, members, 16);
    for (const LayerWork& work : {kDecode, kChunk}) {
      EXPECT_DOUBLE_EQ(both->layer_s(layer, 16, work), slow->layer_s(layer, 16, work));
      EXPECT_DOUBLE_EQ(both->attention_s(layer, 16, work), slow->attention_s(layer, 16, work));
    }
    EXPECT_DOUBLE_EQ(both->embedding_s(3), slow->embedding_s(3));
    EXPECT_DOUBLE_EQ(both->head_s(3), slow->head_s(3));
    EXPECT_TRUE(both->is_monotone());
    EXPECT_DOUBLE_EQ(empty_account(of, members, {}).left_bytes(),
                     empty_account(of.device(3), {}, 2).left_bytes());
    EXPECT_NE(group_key(of, members, 16), group_key(of, {0, 1}, 16));
  }
  EXPECT_TRUE(has_kernel(of, {0, 3}, 8));
  of.cluster.devices.back().device.compute_capability = 6;
  of.kernel_set.rules[0].min_compute_capability = 7;
  EXPECT_TRUE(has_kernel(of, {0, 1}, 8));
  EXPECT_FALSE(has_kernel(of, {0, 3}, 8));
  EXPECT_TRUE(has_kernel(of, {0, 3}, 16));
}

TEST(StagePrice, HostHopAndReturnByHand) {
  const PricingContext of = context();
  const auto price = make_stage_price(of, {0}, 16);
  EXPECT_DOUBLE_EQ(price->host_s(3, 3), 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(price->host_s(2, 6), 2 + 2 * 0.5 + 0.25);
  const Link network = of.cluster.link(0, 2);
  EXPECT_DOUBLE_EQ(price->hop_s(3, network), 7 + 3 * 4 * 2 / 4.0) << "FP16 hidden states";
  EXPECT_DOUBLE_EQ(price->return_s(3, network), 7 + 3 * 4 / 4.0) << "32-bit token ids";
  EXPECT_TRUE(price->is_monotone());
}

/// Two stages on two nodes: a layer of 16 bits and one of 8 on each.
PipelinePrice pipeline(const PricingContext& of) {
  const LayerCounts layers = count_layers(of.model, 0, {16, 8});
  EXPECT_EQ(layers, (LayerCounts{{{0, 8}, 1}, {{0, 16}, 1}}));
  return PipelinePrice(of, {{{0}, StagePlace::first, layers}, {{2}, StagePlace::last, layers}}, 16);
}

constexpr double kTwoLayers_s = 2 * kDecodeLayer_s - 256 + 128 + 3 * (4 * 4 + 8 + 4);

TEST(PipelinePrice, APassByPart) {
  const PricingContext of = context();
  const PipelinePrice price = pipeline(of);
  ASSERT_EQ(price.num_stages(), 2U);
  const PassSeconds first = price.pass(0, {kDecode, 3});
  EXPECT_DOUBLE_EQ(first.layers_s, kTwoLayers_s);
  EXPECT_DOUBLE_EQ(first.host_s, 3.5);
  EXPECT_DOUBLE_EQ(first.embedding_s, 3 * kEmbeddingRow_s);
  EXPECT_EQ(first.head_s, 0);
  EXPECT_DOUBLE_EQ(first.total_s(), kTwoLayers_s + 3.5 + 48);
  const PassSeconds last = price.pass(1, {kDecode, 3});
  EXPECT_DOUBLE_EQ(last.layers_s, kTwoLayers_s);
  EXPECT_EQ(last.host_s + last.embedding_s, 0);
  EXPECT_DOUBLE_EQ(last.head_s, kHead_s + 3 * kHeadRow_s);
  EXPECT_EQ(price.pass(1, {kChunk, 0}).head_s, 0) << "nothing is sampled of a first chunk";
  EXPECT_DOUBLE_EQ(price.pass(0, {kChunk, 0}).host_s, 3.25);
  EXPECT_DOUBLE_EQ(price.pass(0, {kChunk, 0}).embedding_s, 6 * kEmbeddingRow_s);
  EXPECT_DOUBLE_EQ(price.hop_s(0, 6), 7 + 6 * 4 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(price.return_s(3), 7 + 3 * 4 / 4.0);
}

TEST(PipelinePrice, LlmPqHasTheHeadOnTheFirstStage) {
  PricingContext of = context();
  of.memory = MemoryPreset::llm_pq;
  const PipelinePrice price = pipeline(of);
  EXPECT_DOUBLE_EQ(price.pass(0, {kDecode, 3}).head_s, kHead_s + 3 * kHeadRow_s);
  EXPECT_EQ(price.pass(1, {kDecode, 3}).head_s, 0);
}

TEST(PipelinePrice, OneStageHasBothEndsAndNoWayBack) {
  const PricingContext of = context();
  const LayerCounts layers = count_layers(of.model, 0, {16, 16, 16, 16});
  const PipelinePrice price(of, {{{0}, StagePlace::only, layers}}, 16);
  EXPECT_DOUBLE_EQ(price.pass(0, {kDecode, 3}).total_s(),
                   4 * kDecodeLayer_s + 3.5 + 3 * kEmbeddingRow_s + kHead_s + 3 * kHeadRow_s);
  EXPECT_EQ(price.return_s(3), 0);
}

TEST(PipelinePrice, UnitsOfAPhase) {
  Workload workload;
  workload.prompt_tokens = 10;
  workload.output_tokens = 6;
  workload.chunk_tokens = 4;
  const auto chunks = units_of(workload, 3, Phase::prefill);
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[2].tokens, 2);
  EXPECT_EQ(chunks[2].context_tokens, 8);
  EXPECT_EQ(chunks[2].batch_size, 3);
  const auto step = units_of(workload, 3, Phase::decode);
  ASSERT_EQ(step.size(), 1U);
  EXPECT_EQ(step[0].context_tokens, 13);
}

TEST(Correction, RefusesWhatTakesLessThanNothing) {
  const PricingContext of = context();
  const auto correct = [&](double scale, double offset_s) {
    return corrected(make_stage_price(of, {0}, 16), {scale, offset_s});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double scale : {0.0, -1.0, nan, 1 / 0.0}) {
    expect_error(ErrorCode::out_of_range, {"correction.scale"}, [&] { correct(scale, 0); });
  }
  for (const double offset_s : {-1e-9, nan, 1 / 0.0}) {
    expect_error(ErrorCode::out_of_range, {"correction.offset_s"}, [&] { correct(1, offset_s); });
  }
}

TEST(PriceCache, KeepsPricesByAllThatTheyDependOn) {
  const PricingContext of = context();
  PriceCache cache;
  const GroupKey one = group_key(of, {0}, 16);
  const std::size_t number = cache.number_of(one);
  EXPECT_EQ(cache.number_of(group_key(of, {1}, 16)), number) << "a device like it";
  PricingContext other = of;
  other.kernel_set.name = "others";
  for (const GroupKey& unlike : {group_key(of, {0, 1}, 16), group_key(of, {0, 2}, 16),
                                 group_key(of, {0}, 8), group_key(other, {0}, 16),
                                 group_key(of, {0}, 16, {2, 0}), group_key(of, {0}, 16, {1, 1})}) {
    EXPECT_NE(cache.number_of(unlike), number);
  }
  int made = 0;
  const auto make = [&] { return std::vector<double>{static_cast<double>(++made)}; };
  const PriceKey key{number, PricePart::products, Phase::decode, {0, 4}, {1, 2, 3, 4}};
  const std::vector<double>& known = cache.get(key, make);
  EXPECT_EQ(&cache.get(key, make), &known);
  EXPECT_EQ(made, 1);
  PriceKey larger = key;
  larger.sizes[3] = 5;
  EXPECT_EQ(cache.get(larger, make).front(), 2);
}

}  // namespace
}  // namespace tessera::cost::stage_price_test
