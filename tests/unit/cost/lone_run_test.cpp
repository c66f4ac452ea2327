// One request alone, against sums written down by hand.
#include "tessera/cost/lone_run.h"

#include <gtest/gtest.h>

#include "devices.h"
#include "expect_error.h"
#include "shapes.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::lone_run_test {
namespace {

using test::expect_error;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

ModelShape shape_of(const std::string& name) {
  const std::string file = datasets().require("models", name);
  return model_from_json(read_json_file(file), file);
}

PricingContext context(const char* model, std::size_t num_devices,
                       const char* kernel_set = "modern") {
  Cluster cluster;
  cluster.nodes.resize(1);
  for (std::size_t i = 0; i < num_devices; ++i) {
    cluster.devices.push_back({find_device("A6000", datasets()), 0});
  }
  return pricing_context(shape_of(model), cluster, {16}, kernel_set, datasets());
}

double seconds(const PricingContext& context, LoneRunQuery query) {
  query.output_tokens = {8};
  return lone_run(context, query).latency_s.front();
}

double memory(const PricingContext& context, const LoneRunQuery& query) {
  return lone_run(context, query).memory_bytes();
}

TEST(LoneRun, IsALineInItsLayers) {
  const PricingContext priced = context("llama-2-7b", 2);
  for (const std::int64_t degree : {1, 2}) {
    LoneRunQuery query{.tensor_parallel = degree, .num_layers = 1};
    const double s1 = seconds(priced, query), m1 = memory(priced, query);
    query.num_layers = 2;
    const double s2 = seconds(priced, query), m2 = memory(priced, query);
    query.num_layers = 32;
    EXPECT_NEAR(seconds(priced, query), s1 + 31 * (s2 - s1), 1e-9);
    EXPECT_NEAR(memory(priced, query), m1 + 31 * (m2 - m1), 1);
  }
}

TEST(LoneRun, IsWhatThePassesOfAPipelineTake) {
  const PricingContext priced = context("llama-2-7b", 2);
  const std::vector<std::int32_t> bits(16, 16);
  const PipelinePrice price(priced,
                            {{{0}, StagePlace::first, count_layers(priced.model, 0, bits)},
                             {{1}, StagePlace::last, count_layers(priced.model, 16, bits)}},
                            16);
  const auto pass = [&](const Pass& of) {
    return price.pass(0, of).total_s() + price.hop_s(0, of.rows()) + price.pass(1, of).total_s() +
           price.return_s(1);
  };
  const double prompt_s = pass({{Phase::prefill, 1, 100, 0}, 1});
  const double token_s = pass({{Phase::decode, 1, 1, 101}, 1});
  const LoneRun run = lone_run(
      priced,
      {.pipeline_parallel = 2, .num_layers = 32, .prompt_tokens = 100, .output_tokens = {1, 2}});
  EXPECT_DOUBLE_EQ(run.latency_s[0], prompt_s);
  EXPECT_DOUBLE_EQ(run.latency_s[1], prompt_s + token_s);
}

TEST(LoneRun, AnswersABatchAtOnce) {
  const PricingContext priced = context("llama-2-7b", 1);
  const std::vector<std::int32_t> bits(32, 16);
  const PipelinePrice price(priced, {{{0}, StagePlace::only, count_layers(priced.model, 0, bits)}},
                            16);
  const auto pass = [&](const Pass& of) { return price.pass(0, of).total_s() + price.return_s(1); };
  LoneRunQuery query{.num_layers = 32, .prompt_tokens = 100, .output_tokens = {1, 2}};
  const LoneRun one = lone_run(priced, query);
  EXPECT_TRUE(one.batch_latency_s.empty());
  query.batch_size = 8;
  const LoneRun batch = lone_run(priced, query);
  EXPECT_EQ(batch.latency_s, one.latency_s);
  const double prompts_s = 8 * pass({{Phase::prefill, 1, 100, 0}, 1});
  EXPECT_DOUBLE_EQ(batch.batch_latency_s[0], prompts_s);
  EXPECT_NEAR(batch.batch_latency_s[1], prompts_s + pass({{Phase::decode, 8, 1, 101}, 8}), 1e-4);
  EXPECT_NEAR(batch.memory.kv_bytes, 8 * one.memory.kv_bytes, 1);
}

TEST(LoneRun, ClientsWaitForTheApiServerOnce) {
  PricingContext priced = context("llama-2-7b", 1);
  const LoneRunQuery query{.num_layers = 32, .output_tokens = {1, 9}};
  const LoneRun before = lone_run(priced, query);
  priced.kernel_set.api_s = 0.5;
  const LoneRun after = lone_run(priced, query);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(after.latency_s[i], before.latency_s[i] + 0.5, 1e-12);
  }
}

TEST(LoneRun, GpusHoldWhatTheyShareAndWhatEachNeeds) {
  const PricingContext priced = context("llama-2-7b", 2);
  const LoneRun one = lone_run(priced, {.num_layers = 32});
  EXPECT_NEAR(one.memory.weight_bytes + one.memory.embedding_bytes, 2 * 6738415616.0, 1e6);
  const LoneRun two = lone_run(priced, {.tensor_parallel = 2, .num_layers = 32});
  EXPECT_DOUBLE_EQ(two.memory.reserve_bytes, 2 * one.memory.reserve_bytes);
  EXPECT_NEAR(two.memory.kv_bytes, one.memory.kv_bytes, 1);
  const LoneRun kv8 = lone_run(priced, {.kv_bitwidth = 8, .num_layers = 32});
  EXPECT_NEAR(kv8.memory.kv_bytes, one.memory.kv_bytes / 2, 1);
}

TEST(LoneRun, TakesTheDevicesThatAreNamed) {
  PricingContext mixed = context("llama-2-7b", 2);
  mixed.cluster.devices.push_back({find_device("T4-16G", datasets()), 0});
  const auto on = [&](std::vector<std::int64_t> devices) {
    LoneRunQuery query{.devices = std::move(devices), .num_layers = 32, .output_tokens = {8}};
    query.pipeline_parallel = std::max<std::int64_t>(1, std::ssize(query.devices));
    return lone_run(mixed, query);
  };
  EXPECT_EQ(on({}).latency_s, on({1}).latency_s);
  EXPECT_GT(on({2}).latency_s.front(), 1.5 * on({0}).latency_s.front());
  const double half = (on({0}).latency_s.front() + on({2}).latency_s.front()) / 2;
  EXPECT_NEAR(on({0, 2}).latency_s.front(), half, 0.05 * half);
  EXPECT_GT(on({0, 2}).latency_s.front(), half);
  // Of GPUs with more memory the allocator loses more.
  EXPECT_NEAR(on({0, 2}).memory.reserve_bytes,
              on({0}).memory.reserve_bytes + on({2}).memory.reserve_bytes, 1);
  const auto refused = [&](ErrorCode code, const LoneRunQuery& query, const char* words) {
    expect_error(code, {words}, [&] { lone_run(mixed, query); });
  };
  refused(ErrorCode::unsupported, {.tensor_parallel = 2, .devices = {1, 2}, .num_layers = 1},
          "do not share layers");
  refused(ErrorCode::invalid_argument, {.devices = {0, 1}, .num_layers = 1}, "takes 1");
  refused(ErrorCode::invalid_argument, {.devices = {3}, .num_layers = 1}, "no device 3 of 3");
}

TEST(LoneRun, SaysWhatCannotRun) {
  const PricingContext llama = context("llama-2-7b", 4);
  const auto refused = [](const PricingContext& priced, const LoneRunQuery& query,
                          const char* words) {
    expect_error(ErrorCode::unsupported, {words}, [&] { lone_run(priced, query); });
  };
  refused(llama, {.tensor_parallel = 2, .pipeline_parallel = 4, .num_layers = 1}, "8 GPUs");
  refused(llama, {.tensor_parallel = 3, .num_layers = 1}, "32 heads");
  refused(llama, {.pipeline_parallel = 2, .kv_bitwidth = 4, .num_layers = 1}, "KV cache of 4 bits");
  refused(llama, {.bitwidth = 9, .scheme = "wanda_4_8", .num_layers = 1}, "wanda_4_8");
  refused(llama, {.tensor_parallel = 4, .bitwidth = 4, .scheme = "gptq4", .num_layers = 1},
          "groups of 128 weights do not divide the 2752 inputs of down_proj");
  EXPECT_NO_THROW(lone_run(llama, {.tensor_parallel = 4, .bitwidth = 4, .num_layers = 1}));
}

TEST(WithoutStructures, TakesHeadsAndColumns) {
  const ModelShape whole = shape_of("llama-2-7b");
  const ModelShape pruned = without_structures(whole, 0.25);
  EXPECT_EQ(pruned.num_heads, 24);
  EXPECT_EQ(pruned.ffn_size, 8256);
  const double kept = static_cast<double>(pruned.layer(0).linear_parameters()) /
                      static_cast<double>(whole.layer(0).linear_parameters());
  EXPECT_NEAR(kept, 0.75, 1e-9);
  // Keys and values are shared by a group, which stays whole or goes.
  const ModelShape grouped = without_structures(shape_of("llama-2-70b"), 0.25);
  EXPECT_EQ(grouped.layer(0).num_kv_heads, 6);
  EXPECT_EQ(grouped.layer(0).num_heads, 48);
  EXPECT_EQ(without_structures(shape_of("falcon-7b"), 0.5).num_kv_heads, 1);
  expect_error(ErrorCode::unsupported, {"latent"},
               [] { without_structures(shape_of("deepseek-v2-lite"), 0.25); });
}

}  // namespace
}  // namespace tessera::cost::lone_run_test
