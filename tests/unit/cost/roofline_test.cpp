#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/error.h"
#include "tessera/cost/latency.h"

namespace tessera::cost::roofline_test {
namespace {

using test::llama_3_8b;
using test::mistral_7b_windowed;
using test::mixtral_8x7b;
using test::opt_30b;
using ::testing::HasSubstr;

// Rates of one, no overheads: seconds are then operations or bytes.
KernelSet bare_kernels() {
  KernelSet set;
  set.name = "bare";
  set.attention_flop_ratio = set.attention_memory_ratio = 1;
  KernelRule rule;
  rule.flop_ratio = rule.memory_ratio = 1;
  set.rules = {rule};
  rule.bitwidth = 4;
  rule.group_size = 128;
  set.rules.push_back(rule);
  return set;
}

Device compute_bound() { return test::device("slow-math", 16, 1e21, 1e-12, 8); }
Device memory_bound() { return test::device("slow-memory", 16, 1e-9, 1e21, 8); }

double layer_s(const Device& device, const LayerShape& layer, std::int32_t bitwidth,
               const LayerWork& work) {
  return make_roofline(device, bare_kernels())->layer_s(layer, bitwidth, 16, work);
}

TEST(Roofline, OperationsOfAPrefillByHand) {
  const LayerShape layer = opt_30b().layer_classes.front();
  const double h = 7168;
  const double pairs = 512.0 * 513 / 2;
  EXPECT_NEAR(layer_s(compute_bound(), layer, 16, {Phase::prefill, 4, 512, 0}) /
                  (2 * 12 * h * h * 4 * 512 + 4 * h * pairs * 4),
              1, 1e-12);
}

TEST(Roofline, ChunksAddUpToTheWholePrompt) {
  const LayerShape layer = opt_30b().layer_classes.front();
  const double whole = layer_s(compute_bound(), layer, 16, {Phase::prefill, 2, 1024, 0});
  double chunks = 0;
  for (int k = 0; k < 4; ++k) {
    chunks += layer_s(compute_bound(), layer, 16, {Phase::prefill, 2, 256, 256.0 * k});
  }
  EXPECT_NEAR(chunks / whole, 1, 1e-12);
}

TEST(Roofline, BytesOfADecodeStepByHand) {
  const LayerShape layer = llama_3_8b().layer_classes.front();
  const double parameters = 2.0 * 4096 * 4096 + 2.0 * 4096 * 1024 + 3.0 * 4096 * 14336;
  const double in_out = 4 * 4096 + 2 * (4096 + 1024) + 3 * (4096 + 14336);
  const double kv = (1000 + 2) * 2 * 1024 * 2 + 2 * 4096 * 2;
  const LayerWork work{Phase::decode, 8, 1, 1000};
  EXPECT_NEAR(layer_s(memory_bound(), layer, 16, work) / (parameters * 2 + 8 * (in_out * 2 + kv)),
              1, 1e-12);
  const double quantised = parameters / 2 + parameters / 128 * 2.5;
  EXPECT_NEAR(layer_s(memory_bound(), layer, 4, work) / (quantised + 8 * (in_out * 2 + kv)), 1,
              1e-12);
}

/// Attention alone: a layer less the same layer without any.
double attention_s(const Device& device, LayerShape layer, const LayerWork& work) {
  layer.linears = {{"none", 1, 1}};
  const double whole = layer_s(device, layer, 16, work);
  layer.num_heads = 0;
  layer.latent_width.reset();
  layer.num_kv_heads = 0;
  return whole - layer_s(device, layer, 16, work);
}

// DeepSeek-V3: decoding reads the latent of 576 values once for all 128 heads, and computes with
// it; prompts make keys of 192 and values of it.
TEST(Roofline, LatentAttentionByHand) {
  const LayerShape layer = test::latent_layer();
  const LayerWork decode{Phase::decode, 8, 1, 4000};
  EXPECT_NEAR(
      attention_s(memory_bound(), layer, decode) / (8 * ((4000 + 2) * 576 * 2 + 2 * 128 * 192 * 2)),
      1, 1e-9);
  EXPECT_NEAR(attention_s(compute_bound(), layer, decode) / (8 * 2 * 128 * (2 * 512 + 64) * 4001.0),
              1, 1e-9);
  const double pairs = 512.0 * 513 / 2;
  EXPECT_NEAR(attention_s(compute_bound(), layer, {Phase::prefill, 4, 512, 0}) /
                  (4 * 4 * 128 * 192 * pairs),
              1, 1e-9);
  // A later chunk makes keys and values of what came before it too.
  const double chunk = 512.0 * 4000 + pairs;
  EXPECT_NEAR(attention_s(compute_bound(), layer, {Phase::prefill, 1, 512, 4000}) /
                  (4 * 128 * 192 * chunk + 2.0 * 512 * 128 * 256 * 4000),
              1, 1e-9);
}

// DeepSeek-V4: a window of 128 tokens, and entries of four, of which 512 are chosen by keys of 128
// that 64 heads compare.
TEST(Roofline, EntriesByHand) {
  LayerShape layer = test::latent_layer();
  layer.attention_window = 128;
  layer.tokens_per_entry = 4;
  const auto attention = [&](const Device& device, double context) {
    LayerShape alone = layer;
    alone.linears = {{"indexer.weights_proj", 1, 64}};
    const LayerWork decode{Phase::decode, 8, 1, context};
    const double whole = layer_s(device, alone, 16, decode);
    alone.num_heads = alone.num_kv_heads = 0;
    for (auto* field : {&alone.latent_width, &alone.index_width, &alone.index_tokens,
                        &alone.tokens_per_entry, &alone.attention_window})
      field->reset();
    return whole - layer_s(device, alone, 16, decode);
  };
  const double on_latents = 2 * 128 * (2 * 512 + 64), in_out = 2 * 128 * 192 * 2;
  const double entries = 4000.0 / 4, seen = 127 + 2 + entries + 0.5;
  EXPECT_NEAR(attention(memory_bound(), 4000) / (8 * (seen * 576 * 2 + in_out)), 1, 1e-9);
  EXPECT_NEAR(attention(compute_bound(), 4000) / (8 * on_latents * (128 + 4001.0 / 4)), 1, 1e-9);
  layer.index_tokens = 512;
  layer.index_width = 128;
  const double chosen = 127 + 2 + 512 + 0.5, keys = 4002.0 / 4 * 128;
  EXPECT_NEAR(attention(memory_bound(), 4000) / (8 * (chosen * 576 * 2 + keys * 2 + in_out)), 1,
              1e-9);
  EXPECT_NEAR(attention(compute_bound(), 4000) /
                  (8 * (on_latents * (128 + 512) + 2 * 64 * 128 * 4001.0 / 4)),
              1, 1e-9);
}

TEST(Roofline, OnlyExpertsThatAreTouchedAreRead) {
  LayerShape layer;
  layer.linears = {{"experts.up_proj", 100, 100, 8, 2}};
  const double matrix = 100 * 100 * 2, in_out = 2 * 200 * 2;
  const auto bytes = [&](double rows) {
    return layer_s(memory_bound(), layer, 16, {Phase::decode, rows, 1, 0}) - rows * in_out;
  };
  EXPECT_NEAR(bytes(1), 2 * matrix, 1e-6 * matrix);
  EXPECT_NEAR(bytes(2), 8 * (1 - 0.75 * 0.75) * matrix, 1e-6 * matrix);
  EXPECT_NEAR(bytes(1000), 8 * matrix, 1e-6 * matrix);
}

TEST(Roofline, WindowBoundsAttention) {
  const LayerShape layer = mistral_7b_windowed().layer_classes.front();
  const auto decode = [&](double context) {
    return layer_s(memory_bound(), layer, 16, {Phase::decode, 1, 1, context});
  };
  EXPECT_LT(decode(1000), decode(4095));
  EXPECT_DOUBLE_EQ(decode(4095), decode(50000));
  LayerShape attention = layer;
  attention.linears.clear();
  double pairs = 0;
  for (int i = 1; i <= 3000; ++i) pairs += std::min(2000 + i, 4096);
  EXPECT_NEAR(
      layer_s(compute_bound(), attention, 16, {Phase::prefill, 1, 3000, 2000}) / (4 * 4096 * pairs),
      1, 1e-6);
}

TEST(Roofline, SomeDevicesReadKeysAndValuesAgainForFurtherHeadsOfAGroup) {
  const LayerShape grouped = llama_3_8b().layer_classes.front();
  LayerShape alone = grouped;
  alone.num_kv_heads = grouped.num_heads;
  const Device device = test::v100();
  KernelSet kernels = bare_kernels();
  const auto seconds = [&](const LayerShape& layer, const LayerWork& work) {
    return make_roofline(device, kernels)->layer_s(layer, 16, 16, work);
  };
  const LayerWork decode{Phase::decode, 64, 1, 4000}, prefill{Phase::prefill, 1, 512, 4000};
  const double once_s = seconds(grouped, decode), prompt_s = seconds(grouped, prefill);
  const double each_s = seconds(alone, decode);
  EXPECT_GT(each_s, 1.5 * once_s);
  kernels.kv_per_query_head = {.share = 1, .devices = {"another GPU"}};
  EXPECT_EQ(seconds(grouped, decode), once_s);
  kernels.kv_per_query_head = {.share = 1, .devices = {device.name}};
  EXPECT_NEAR(seconds(grouped, decode), each_s, 1e-9 * each_s);
  kernels.kv_per_query_head = {.share = 0.25, .max_compute_capability = 6.9};
  EXPECT_EQ(seconds(grouped, decode), once_s);
  kernels.kv_per_query_head = {.share = 0.25, .max_compute_capability = 7};
  EXPECT_NEAR(seconds(grouped, decode), once_s + 0.25 * (each_s - once_s), 1e-9 * each_s);
  EXPECT_EQ(seconds(alone, decode), each_s);
  EXPECT_EQ(seconds(grouped, prefill), prompt_s);
}

TEST(Roofline, OverheadsAndPerTokenCostAreAdded) {
  const Device device = test::device("fast", 16, 1e21, 1e21, 8);
  KernelSet kernels = bare_kernels();
  kernels.layer_overhead_s = 1;
  kernels.rules[0].linear_overhead_s = 0.5;
  kernels.rules[0].token_s_per_parameter = 1e-6;
  LayerShape layer;
  layer.linears = {{"a", 10, 20, 1, 1}, {"b", 20, 10, 1, 1}};
  const auto model = make_roofline(device, kernels);
  const Sourced time = model->layer(layer, 16, 16, {Phase::decode, 3, 1, 0}).seconds;
  EXPECT_NEAR(time.value, 1 + 2 * 0.5 + 3 * 400 * 1e-6, 1e-12);
  EXPECT_EQ(time.provenance, Provenance::modelled);
}

TEST(Roofline, EmbeddingAndLmHeadByHand) {
  const ModelShape model = opt_30b();
  const auto memory = make_roofline(memory_bound(), bare_kernels());
  EXPECT_NEAR(memory->embedding_s(model, 10) / (10 * 3 * 7168 * 2), 1, 1e-12);
  const auto compute = make_roofline(compute_bound(), bare_kernels());
  EXPECT_NEAR(compute->lm_head_s(model, 10) / (2.0 * (50272 + 2) * 7168 * 10), 1, 1e-12);
}

std::string message_of(const Device& device, const KernelSet& kernels, std::int32_t bitwidth) {
  try {
    make_roofline(device, kernels)->layer_s(opt_30b().layer_classes.front(), bitwidth, 16, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

TEST(Roofline, MissingKernelsAreNamed) {
  KernelSet kernels = test::test_kernels();
  for (KernelRule& rule : kernels.rules) {
    if (rule.bitwidth == 4) rule.min_compute_capability = 7.5;
    if (rule.bitwidth == 8) rule.compute_dtype = "int8";
  }
  const std::string no_rule = message_of(test::v100(), kernels, 4);
  EXPECT_THAT(no_rule, HasSubstr("'test'"));
  EXPECT_THAT(no_rule, HasSubstr("4 bits on V100-32G"));
  EXPECT_THAT(no_rule, HasSubstr("3, 16"));
  // A rule whose arithmetic the device lacks is no rule there.
  const std::string no_dtype = message_of(test::v100(), kernels, 8);
  EXPECT_THAT(no_dtype, HasSubstr("8 bits on V100-32G"));
  EXPECT_THAT(no_dtype, HasSubstr("3, 16"));
}

TEST(Roofline, RefusesWorkThatIsNoWork) {
  const auto model = make_roofline(test::t4(), test::test_kernels());
  const LayerShape layer = opt_30b().layer_classes.front();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(model->layer_s(layer, 16, 16, {Phase::decode, 0, 1, 0}), Error);
  EXPECT_THROW(model->layer_s(layer, 16, 16, {Phase::decode, nan, 1, 0}), Error);
  EXPECT_THROW(model->layer_s(layer, 16, 16, {Phase::decode, 1, 1, -1}), Error);
  EXPECT_THROW(model->layer_s(layer, 16, 0, {Phase::decode, 1, 1, 1}), Error);
  EXPECT_THROW(model->lm_head_s(opt_30b(), 0), Error);
  Device broken = test::t4();
  broken.memory_bytes_per_s = 0;
  EXPECT_THROW(make_roofline(broken, test::test_kernels()), Error);
}

}  // namespace
}  // namespace tessera::cost::roofline_test
