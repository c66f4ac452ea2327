// What runtimes can launch, by rule: bitwidths, KV caches, devices, degrees, schemes, nodes.
#include "tessera/solver/plan/launch_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/core/files.h"

namespace tessera::solver::launch_rules_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

cost::PricingContext context_on(const std::string& cluster, const char* kernel_set) {
  cost::PricingContext context;
  context.cluster = find_cluster(cluster, datasets());
  context.kernel_set = cost::find_kernel_set(kernel_set, datasets());
  return context;
}

/// A layer on each of these (node, device, GPUs).
struct On {
  std::int64_t node;
  const char* device;
  std::vector<std::int64_t> gpus;
  std::int32_t bitwidth = 16;
};

Placement placed(const std::vector<On>& stages, std::int32_t kv_bitwidth = 16) {
  Placement placement;
  placement.model = "m";
  placement.num_layers = std::ssize(stages);
  placement.nodes = {"a", "b", "c"};
  PlacedEngine& engine = placement.engines.emplace_back();
  engine.kv_bitwidth = kv_bitwidth;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const On& on = stages[i];
    engine.stages.push_back(
        {on.device, on.node, on.gpus, static_cast<std::int64_t>(i), 1, {on.bitwidth}});
  }
  return placement;
}

Device sheet(const char* name) {
  return context_on(std::string("1x") + name, "llama_cpp").cluster.devices.front().device;
}

std::vector<std::string> obstacles(Runtime runtime, const std::vector<On>& stages,
                                   const char* kernel_set = "vllm", std::int32_t kv_bitwidth = 16) {
  return launch_obstacles(runtime, context_on("1xL4+1xA100-80G+1xT4-16G+1xMI300X", kernel_set),
                          placed(stages, kv_bitwidth), 0);
}

TEST(LaunchRules, NothingStandsInTheWayOfEqualStages) {
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "L4", {0, 1}}, {1, "L4", {0, 1}, 8}}), IsEmpty());
  EXPECT_THAT(obstacles(Runtime::llama_cpp, {{0, "L4", {0}, 3}, {0, "L4", {1}, 4}}, "vllm", 4),
              IsEmpty());
  EXPECT_THAT(obstacles(Runtime::tessera, {{0, "L4", {0}, 3}, {1, "L4", {0, 1}}, {0, "L4", {2}}}),
              IsEmpty());
}

// A model whose rows of 2 x 3 x 128 inputs are cut, and 4-bit weights in groups of 128.
TEST(LaunchRules, GroupsThatACutParts) {
  const auto found = [](std::int64_t degree, std::int32_t bitwidth, const ModelShape& named = {}) {
    cost::PricingContext context = context_on("8xL4", "vllm");
    context.model = named;
    LayerShape layer;
    layer.linears = {{"up_proj", 1024, 768}, {"down_proj", 768, 1024}};
    layer.num_heads = layer.num_kv_heads = 8;
    context.model.layer_classes = {layer};
    std::vector<std::int64_t> gpus;
    for (std::int64_t i = 0; i < degree; ++i) gpus.push_back(i);
    return launch_obstacles(Runtime::vllm, context, placed({{0, "L4", gpus, bitwidth}}), 0);
  };
  EXPECT_THAT(found(2, 4), IsEmpty());
  EXPECT_THAT(found(4, 16), IsEmpty());
  EXPECT_THAT(found(4, 4),
              ElementsAre("groups of 128 weights do not divide the 192 inputs of "
                          "down_proj at TP 4, and vLLM loads whole groups on every GPU"));
  ModelShape named;
  named.checkpoint_format = "awq";
  named.checkpoint_bits = 4;
  named.checkpoint_group_size = 64;
  EXPECT_THAT(found(4, 4, named), IsEmpty());
  EXPECT_THAT(found(8, 4, named), ElementsAre(HasSubstr("groups of 64")));
  named.checkpoint_group_size.reset();  // a scale of a channel
  EXPECT_THAT(found(8, 4, named), IsEmpty());
}

TEST(LaunchRules, SplitsOfGroups) {
  const auto found = [](Runtime runtime, const cost::GroupSplit& split,
                        const std::vector<On>& stages) {
    cost::PricingContext context = context_on("4xL4", "vllm");
    context.split = split;
    return launch_obstacles(runtime, context, placed(stages), 0);
  };
  const std::vector<On> one = {{0, "L4", {0, 1, 2, 3}}};
  const std::vector<On> two = {{0, "L4", {0, 1}}, {0, "L4", {2, 3}}};
  EXPECT_THAT(found(Runtime::vllm, {1, 4}, one), IsEmpty());
  EXPECT_THAT(found(Runtime::vllm, {4, 4}, one), IsEmpty());
  EXPECT_THAT(found(Runtime::vllm, {1, 2}, two), IsEmpty());
  EXPECT_THAT(found(Runtime::vllm, {1, 2}, one),
              ElementsAre(HasSubstr("experts are spread over 2 of 4 devices")));
  EXPECT_THAT(found(Runtime::vllm, {2, 2}, two),
              ElementsAre(HasSubstr("data-parallel attention in several stages")));
  EXPECT_THAT(found(Runtime::llama_cpp, {1, 4}, {{0, "L4", {0}}}),
              ElementsAre(HasSubstr("llama.cpp neither spreads experts")));
}

TEST(LaunchRules, BitwidthsAndCachesNeedKernels) {
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "L4", {0}, 3}}),
              ElementsAre("vLLM has no kernel for 3-bit weights"));
  EXPECT_THAT(obstacles(Runtime::llama_cpp, {{0, "L4", {0}, 5}}),
              ElementsAre("llama.cpp has no kernel for 5-bit weights"));
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "L4", {0}}}, "vllm", 4),
              ElementsAre("vLLM has no KV cache of 4 bits"));
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "L4", {0}}}, "vllm", 8), IsEmpty());
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "A100-80G", {0}}}, "vllm", 8),
              ElementsAre("an 8-bit KV cache is FP8 in vLLM, which needs compute capability 8.9; "
                          "A100-80G has 8"));
  const ModelShape model;
  EXPECT_THAT(kernel_obstacles(Runtime::vllm, model, {3}, 4, sheet("L4")), ::testing::SizeIs(2));
  EXPECT_THAT(kernel_obstacles(Runtime::tessera, model, {3}, 4, sheet("L4")), IsEmpty());
  EXPECT_THAT(kernel_obstacles(Runtime::vllm, model, {16}, 16, sheet("M3-Max-128G")),
              ElementsAre("launch files are for NVIDIA's and AMD's GPUs, and M3-Max-128G is "
                          "neither"));
}

// Which of AMD's GPUs vLLM runs on its kernel set says; the plan has to be priced by it.
TEST(LaunchRules, AmdsGpusRunWhatVllmsKernelSetNames) {
  const std::vector<On> one = {{0, "MI300X", {0}}};
  EXPECT_THAT(obstacles(Runtime::vllm, one, "vllm_rocm"), IsEmpty());
  EXPECT_THAT(obstacles(Runtime::vllm, one, "vllm_rocm", 8), IsEmpty());
  EXPECT_THAT(
      obstacles(Runtime::vllm, one, "llama_cpp"),
      ElementsAre("vLLM runs on those of AMD's GPUs that its kernel set vllm_rocm names, and "
                  "MI300X is priced by llama_cpp"));
  EXPECT_EQ(device_obstacle(Runtime::vllm, sheet("MI250"), 16), std::nullopt);
  EXPECT_EQ(device_obstacle(Runtime::vllm, sheet("MI250"), 8),
            "an 8-bit KV cache is FP8 in vLLM, of which MI250 has no rate");
  ModelShape awq;
  awq.checkpoint_format = "awq";
  EXPECT_EQ(format_obstacle(Runtime::vllm, awq, {4}, sheet("MI300X")), std::nullopt);
}

TEST(LaunchRules, FormatsOfCheckpointsNeedKernels) {
  ModelShape awq;
  awq.checkpoint_format = "awq";
  EXPECT_EQ(format_obstacle(Runtime::vllm, awq, {4}, sheet("V100-32G")),
            "vLLM reads AWQ from compute capability 7.5 on; V100-32G has 7.0");
  EXPECT_EQ(format_obstacle(Runtime::vllm, awq, {4}, sheet("T4-16G")), std::nullopt);
  EXPECT_EQ(format_obstacle(Runtime::vllm, awq, {16}, sheet("V100-32G")), std::nullopt);
  EXPECT_EQ(format_obstacle(Runtime::tessera, awq, {4}, sheet("V100-32G")), std::nullopt);
  ModelShape gpt_oss;
  gpt_oss.family = "gpt_oss";
  EXPECT_EQ(format_obstacle(Runtime::vllm, gpt_oss, {4}, sheet("T4-16G")),
            "vLLM reads MXFP4 from compute capability 8.0 on; T4-16G has 7.5");
  EXPECT_EQ(format_obstacle(Runtime::vllm, gpt_oss, {4}, sheet("A100-80G")), std::nullopt);
  ModelShape gptq = gpt_oss;
  gptq.checkpoint_format = "gptq";
  EXPECT_EQ(format_obstacle(Runtime::vllm, gptq, {4}, sheet("T4-16G")), std::nullopt);
}

// The kernel sets of vLLM say from where on its attention reads FP8; this is the same number.
TEST(LaunchRules, Fp8CachesBeginWhereTheKernelSetsSay) {
  for (const char* name : {"vllm", "vllm_fp8"}) {
    const cost::KernelSet set = cost::find_kernel_set(name, datasets());
    ASSERT_EQ(set.kv_rules.size(), 1u);
    EXPECT_EQ(set.kv_rules[0].min_compute_capability, kFp8Capability);
  }
}

TEST(LaunchRules, OneDegreeAndOneScheme) {
  EXPECT_THAT(
      obstacles(Runtime::vllm, {{0, "L4", {0, 1}}, {0, "L4", {2}}}),
      ElementsAre("the stages have tensor parallelism 2 and 1; vLLM has one degree for all"));
  // llama.cpp: stages, or one group that shares all layers, on CUDA or ROCm, with a cache of 16
  // bits.
  EXPECT_THAT(obstacles(Runtime::llama_cpp, {{0, "L4", {0, 1}}}), IsEmpty());
  EXPECT_THAT(obstacles(Runtime::llama_cpp, {{0, "L4", {0, 1}}, {0, "L4", {2, 3}}}),
              ElementsAre(HasSubstr("2 stages and tensor parallelism 2")));
  EXPECT_THAT(obstacles(Runtime::llama_cpp, {{0, "L4", {0, 1}}}, "vllm", 8),
              ElementsAre(HasSubstr("KV cache of 16 bits; this one has 8")));
  const std::vector<On> mixed{{0, "A100-80G", {0}, 8}, {0, "A100-80G", {1}, 4}};
  EXPECT_THAT(obstacles(Runtime::vllm, mixed), IsEmpty());
  EXPECT_THAT(obstacles(Runtime::vllm, mixed, "vllm_fp8"),
              ElementsAre(HasSubstr("8 bit is FP8 with kernel set vllm_fp8; beside 4-bit layers")));
  EXPECT_THAT(obstacles(Runtime::vllm, {{0, "L4", {0}, 8}, {0, "L4", {1}, 16}}, "modern_w8a8"),
              ElementsAre(HasSubstr("INT8 weights and activations")));
}

TEST(LaunchRules, PipelinesKeepToNodes) {
  const std::vector<On> back{{0, "L4", {0}}, {1, "L4", {0}}, {0, "L4", {1}}};
  EXPECT_THAT(obstacles(Runtime::vllm, back),
              ElementsAre(HasSubstr("leaves node a and comes back to it")));
  EXPECT_THAT(obstacles(Runtime::llama_cpp, back), ElementsAre(HasSubstr("goes over a and b")));
  const std::vector<On> fewer{{0, "L4", {0}}, {1, "L4", {0}}, {1, "L4", {1}}, {2, "L4", {0}}};
  EXPECT_THAT(obstacles(Runtime::vllm, fewer), ElementsAre(HasSubstr("this pipeline has 1, 2, 1")));
  const std::vector<On> more{{0, "L4", {0}}, {1, "L4", {0}}, {2, "L4", {0}}, {2, "L4", {1}}};
  EXPECT_THAT(obstacles(Runtime::vllm, more), IsEmpty());
}

TEST(LaunchRules, PoolsShareCachesAndCheckpoints) {
  const TransferEnd two{"16", 16, 2, 1}, four{"16", 16, 4, 1}, three{"16", 16, 3, 1};
  EXPECT_EQ(transfer_obstacle(Runtime::vllm, two, four), "");
  EXPECT_EQ(transfer_obstacle(Runtime::vllm, three, two),
            "pools: degrees 2 and 3, neither divides the other");
  EXPECT_EQ(transfer_obstacle(Runtime::tessera, three, two), "");
  EXPECT_EQ(transfer_obstacle(Runtime::tessera, {"16", 8, 1, 1}, two), "pools: unlike KV caches");
  EXPECT_EQ(transfer_obstacle(Runtime::vllm, {"8 fp8", 16, 1, 1}, two),
            "pools: vLLM wants one checkpoint in both");
  EXPECT_EQ(transfer_obstacle(Runtime::vllm, {"16", 16, 2, 2}, two),
            "pools: vLLM documents no pipelines in them");
}

TEST(LaunchRules, CheckpointsAreToldApart) {
  const Placement placement = placed({{0, "A100-80G", {0}, 8}, {0, "A100-80G", {1}, 16}});
  EXPECT_EQ(checkpoint_of(context_on("1xA100-80G", "vllm"), placement.engines[0]), "8,16 int");
  EXPECT_EQ(checkpoint_of(context_on("1xA100-80G", "vllm_fp8"), placement.engines[0]), "8,16 fp8");
}

TEST(LaunchRules, CheckpointsHaveOneScheme) {
  using Sets = std::vector<std::vector<std::int32_t>>;
  const auto sets = [](std::optional<Runtime> runtime, const char* cluster, const char* kernels,
                       std::vector<std::int32_t> bitwidths) {
    BatchProblem batch;
    static_cast<cost::PricingContext&>(batch) = context_on(cluster, kernels);
    batch.bitwidths = std::move(bitwidths);
    return checkpoint_bitwidths(runtime, batch, batch.kernel_set);
  };
  EXPECT_EQ(sets({}, "1xA100-80G", "vllm_fp8", {3, 4, 8, 16}), Sets({{3, 4, 8, 16}}));
  EXPECT_EQ(sets(Runtime::vllm, "1xA100-80G", "vllm", {3, 4, 8, 16}), Sets({{4, 8, 16}}));
  EXPECT_EQ(sets(Runtime::vllm, "1xA100-80G+1xT4-16G", "vllm_fp8", {4, 8, 16}),
            Sets({{8}, {4, 16}}));
  EXPECT_EQ(sets(Runtime::vllm, "1xA100-80G", "vllm_fp8", {8}), Sets({{8}}));
  EXPECT_EQ(sets(Runtime::vllm, "1xA100-80G", "vllm", {3}), Sets({{3}}));
  EXPECT_EQ(sets(Runtime::llama_cpp, "1xA100-80G", "vllm_fp8", {3, 4, 8}), Sets({{3, 4, 8}}));
}

}  // namespace
}  // namespace tessera::solver::launch_rules_test
