#include "tessera/cost/memory.h"

#include <gtest/gtest.h>

#include <cmath>

#include "devices.h"
#include "shapes.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::cost::memory_test {
namespace {

using test::llama_3_8b;
using test::mistral_7b_windowed;
using test::mixtral_8x7b;
using test::opt_13b;
using test::opt_30b;
using test::opt_66b;

const MemoryQuery kLlmPq{MemoryPreset::llm_pq, 16, 128};
const MemoryQuery kPhysical{};

Workload workload(std::int64_t batch, std::int64_t prompt, std::int64_t output) {
  Workload result;
  result.batch_size = batch;
  result.prompt_tokens = static_cast<double>(prompt);
  result.max_prompt_tokens = prompt;
  result.output_tokens = static_cast<double>(output);
  result.max_output_tokens = output;
  return result;
}

TEST(TesseraMemory, WhatIsNoWeightLiesInF32) {
  const MemoryQuery ours{MemoryPreset::tessera};
  const ModelShape model = llama_3_8b();
  const LayerShape& layer = model.layer_classes.front();
  EXPECT_EQ(layer_kv_bytes(layer, 3, 100, ours), 2 * layer_kv_bytes(layer, 3, 100, kPhysical));
  // 8 KV heads of 128, keys and values: codes, and a scale for each head and token.
  EXPECT_EQ(layer_kv_bytes(layer, 1, 1, {MemoryPreset::tessera, 8}), 2 * 8 * (128 + 4));
  EXPECT_EQ(layer_weight_bytes(layer, 4, ours), layer_weight_bytes(layer, 4, kPhysical));
  const Workload batch = workload(4, 64, 32);
  const double middle =
      prefill_activation_bytes(model, batch, 2, StagePlace::middle, kPhysical) -
      2 * 64 * 32 * 2 * 4.0;  // softmax statistics of rows and heads, in FP32 anyway
  EXPECT_NEAR(prefill_activation_bytes(model, batch, 2, StagePlace::middle, ours) / middle, 2,
              0.02);
  EXPECT_EQ(activation_bytes(MemoryPreset::tessera), 2 * activation_bytes(MemoryPreset::physical));
}

TEST(Towers, LieWholeOnEveryDeviceOfAServer) {
  const ModelShape blind = llama_3_8b();
  ModelShape sees = blind;
  sees.towers = {{.name = "vision", .parameters = 400'000'000}, {.name = "audio"}};
  for (const StagePlace place :
       {StagePlace::first, StagePlace::middle, StagePlace::last, StagePlace::only}) {
    const auto more = [&](const ModelShape& with, const ModelShape& without, MemoryPreset preset) {
      return embedding_bytes(with, place, {preset}) - embedding_bytes(without, place, {preset});
    };
    EXPECT_EQ(more(sees, blind, MemoryPreset::physical), 800e6);
    EXPECT_EQ(more(shard(sees, 2, {}), shard(blind, 2, {}), MemoryPreset::physical), 800e6);
    for (const MemoryPreset none :
         {MemoryPreset::tessera, MemoryPreset::llama_cpp, MemoryPreset::llm_pq})
      EXPECT_EQ(more(sees, blind, none), 0);
  }
}

TEST(TesseraMemory, TheEmbeddingIsReadWhereItsFileLies) {
  const MemoryQuery ours{MemoryPreset::tessera};
  const ModelShape model = llama_3_8b();
  EXPECT_EQ(embedding_bytes(model, StagePlace::first, ours), 0);
  const double head = 128256.0 * 4096 * 2 + 4096 * 2;
  EXPECT_EQ(embedding_bytes(model, StagePlace::last, ours), head);
  EXPECT_EQ(embedding_bytes(model, StagePlace::only, ours), head);
}

TEST(LlmPqMemory, UsableMemoryIsWhatTheAuthorsLogged) {
  struct Row {
    double capacity_gib, usable_mib;
  };
  for (const Row& row : {Row{14.76, 12428.5}, Row{31.74, 28946.7}, Row{39.4, 36398.3},
                         Row{11.91, 9656.0}, Row{79, 74921.2}}) {
    Device device;
    device.memory_bytes = row.capacity_gib * kGiB;
    const double usable = empty_account(device, kLlmPq).left_bytes() / kMiB;
    EXPECT_NEAR(usable, row.usable_mib, 0.06) << row.capacity_gib;
  }
}

TEST(LlmPqMemory, EmbeddingsAreWhatTheAuthorsLogged) {
  EXPECT_NEAR(embedding_bytes(opt_13b(), StagePlace::first, kLlmPq) / kMiB, 1001.89, 0.005);
  EXPECT_NEAR(embedding_bytes(opt_30b(), StagePlace::first, kLlmPq) / kMiB, 1402.65, 0.005);
  EXPECT_NEAR(embedding_bytes(opt_66b(), StagePlace::only, kLlmPq) / kMiB, 1803.41, 0.005);
  EXPECT_EQ(embedding_bytes(opt_30b(), StagePlace::last, kLlmPq), 0);
  EXPECT_EQ(embedding_bytes(opt_30b(), StagePlace::middle, kLlmPq), 0);
}

TEST(LlmPqMemory, LayerWithCacheIsWhatTheAuthorsLogged) {
  const LayerShape layer = opt_30b().layer_classes.front();
  const Workload batch = workload(32, 512, 100);
  const auto mib = [&](double bitwidth) {
    return std::ceil(
        (layer_weight_bytes(layer, bitwidth, kLlmPq) + layer_kv_bytes(layer, batch, kLlmPq)) /
        kMiB);
  };
  EXPECT_EQ(mib(8), 1124);
  EXPECT_EQ(mib(16), 1712);
}

// The published sources, evaluated by hand for OPT-30b, s = 512, n = 100.
TEST(LlmPqMemory, ActivationsFollowThePublishedFormulas) {
  const ModelShape model = opt_30b();
  const Workload batch = workload(32, 512, 100);
  const double h = 7168, f = 28672, s = 512, context = 612;
  const double prefill = 20 * s * h + 4 * s * f + 2 * s * s;
  EXPECT_DOUBLE_EQ(prefill_activation_bytes(model, batch, 4, StagePlace::first, kLlmPq),
                   4 * prefill);
  EXPECT_EQ(prefill_activation_bytes(model, batch, 4, StagePlace::last, kLlmPq), 0);
  const double decode = 16 * h + 4 * f + 6 * context + 4 * context * h;
  for (const StagePlace place : {StagePlace::first, StagePlace::middle}) {
    EXPECT_DOUBLE_EQ(decode_activation_bytes(model, batch, 8, place, kLlmPq), 32 * decode);
  }
}

TEST(PhysicalMemory, QuantisedMatricesCarryScalesAndZeroPoints) {
  const LayerShape layer = opt_30b().layer_classes.front();
  const double h = 7168;
  const double parameters = 12 * h * h;
  const double other = 13 * h * 2;
  EXPECT_DOUBLE_EQ(layer_weight_bytes(layer, 16, kPhysical), parameters * 2 + other);
  EXPECT_DOUBLE_EQ(layer_weight_bytes(layer, 4, kPhysical),
                   parameters / 2 + parameters / 128 * 2.5 + other);
  MemoryQuery per_channel;
  per_channel.group_size = 0;
  EXPECT_DOUBLE_EQ(layer_weight_bytes(layer, 8, per_channel), parameters + 9 * h * 3 + other);
}

TEST(PhysicalMemory, GroupsAreRoundedUpPerRow) {
  LayerShape layer;
  layer.linears = {{"m", 130, 10, 3, 1}};
  EXPECT_DOUBLE_EQ(layer_weight_bytes(layer, 4, kPhysical), 3900 * 0.5 + 30 * 2 * 2.5);
}

TEST(PhysicalMemory, WindowCapsTheCache) {
  const LayerShape windowed = mistral_7b_windowed().layer_classes.front();
  const Workload batch = workload(2, 8000, 100);
  EXPECT_DOUBLE_EQ(layer_kv_bytes(windowed, batch, kPhysical), 2.0 * 2 * 4096 * 1024 * 2);
  EXPECT_DOUBLE_EQ(layer_kv_bytes(windowed, batch, kLlmPq), 2.0 * 2 * 8100 * 1024 * 2);
  MemoryQuery half = kPhysical;
  half.kv_bitwidth = 8;
  EXPECT_DOUBLE_EQ(layer_kv_bytes(windowed, batch, half), 2.0 * 2 * 4096 * 1024);
}

TEST(PhysicalMemory, LatentsAreCachedOnceForAllHeads) {
  const LayerShape layer = test::latent_layer();
  EXPECT_DOUBLE_EQ(layer_kv_bytes(layer, 3, 100, {}), 3 * 100 * 576 * 2);
  MemoryQuery eight;
  eight.kv_bitwidth = 8;
  EXPECT_DOUBLE_EQ(layer_kv_bytes(layer, 3, 100, eight), 3 * 100 * 576);
}

// A layer of DeepSeek-V4: of each token of the window one latent, of all tokens an entry of four,
// and its key to choose by.
TEST(PhysicalMemory, EntriesGrowBesideTheWindow) {
  LayerShape layer = test::latent_layer();
  layer.attention_window = 128;
  layer.tokens_per_entry = 4;
  layer.index_width = 128;
  layer.index_tokens = 512;
  EXPECT_DOUBLE_EQ(layer_kv_bytes(layer, 3, 100, {}), 3 * (100 * 576 + 25 * (576 + 128)) * 2);
  EXPECT_DOUBLE_EQ(layer_kv_bytes(layer, 3, 10000, {}), 3 * (128 * 576 + 2500 * (576 + 128)) * 2);
}

TEST(PhysicalMemory, TiedEmbeddingsAreHeldOncePerDevice) {
  const ModelShape tied = opt_30b();
  const double h = 7168, table = 50272 * h * 2;
  EXPECT_DOUBLE_EQ(embedding_bytes(tied, StagePlace::first, kPhysical), table + 2050 * h * 2);
  EXPECT_DOUBLE_EQ(embedding_bytes(tied, StagePlace::last, kPhysical), table + 2 * h * 2);
  EXPECT_DOUBLE_EQ(embedding_bytes(tied, StagePlace::only, kPhysical), table + 2052 * h * 2);
  EXPECT_EQ(embedding_bytes(tied, StagePlace::middle, kPhysical), 0);
  const ModelShape untied = llama_3_8b();
  EXPECT_DOUBLE_EQ(embedding_bytes(untied, StagePlace::only, kPhysical),
                   embedding_bytes(untied, StagePlace::first, kPhysical) +
                       embedding_bytes(untied, StagePlace::last, kPhysical));
}

TEST(PhysicalMemory, ActivationsHaveNoScoreMatrixAndUseChunks) {
  const ModelShape model = llama_3_8b();
  const double at_4k =
      prefill_activation_bytes(model, workload(4, 4096, 10), 1, StagePlace::middle, kPhysical);
  const double at_8k =
      prefill_activation_bytes(model, workload(4, 8192, 10), 1, StagePlace::middle, kPhysical);
  EXPECT_DOUBLE_EQ(at_8k, 2 * at_4k);
  Workload chunked = workload(4, 8192, 10);
  chunked.chunk_tokens = 2048;
  EXPECT_DOUBLE_EQ(prefill_activation_bytes(model, chunked, 1, StagePlace::middle, kPhysical),
                   at_4k / 2);
}

TEST(PhysicalMemory, MiddleStageByHand) {
  const ModelShape model = llama_3_8b();
  // Residual, normed input, gate and up, and two buffers in each direction.
  const double per_row = 4096 * 2 + 4096 * 2 + 2 * 14336 * 2 + 4 * 4096 * 2;
  EXPECT_DOUBLE_EQ(
      prefill_activation_bytes(model, workload(4, 512, 10), 2, StagePlace::middle, kPhysical),
      1024 * per_row);
}

TEST(PhysicalMemory, LastStageHoldsLogitsOfOnePosition) {
  const ModelShape model = llama_3_8b();
  const Workload batch = workload(64, 512, 10);
  const double logits = 64.0 * 128256 * 4;
  EXPECT_GT(decode_activation_bytes(model, batch, 64, StagePlace::last, kPhysical), logits);
  EXPECT_LT(decode_activation_bytes(model, batch, 64, StagePlace::last, kPhysical), 1.2 * logits);
  EXPECT_LT(decode_activation_bytes(model, batch, 64, StagePlace::middle, kPhysical), logits);
}

TEST(PhysicalMemory, ExpertsThatATokenPassesThroughCount) {
  const Workload batch = workload(4, 512, 10);
  EXPECT_GT(prefill_activation_bytes(mixtral_8x7b(), batch, 1, StagePlace::middle, kPhysical),
            1.5 * prefill_activation_bytes(llama_3_8b(), batch, 1, StagePlace::middle, kPhysical));
}

TEST(PhysicalMemory, ReserveIsContextAndSlack) {
  const Device device = test::t4();
  const MemoryAccount account = empty_account(device, kPhysical);
  EXPECT_EQ(account.capacity_bytes, device.memory_bytes);
  EXPECT_EQ(account.usable_bytes, device.memory_bytes);
  EXPECT_DOUBLE_EQ(account.reserve_bytes, 750 * kMiB + 0.03 * device.memory_bytes);
}

TEST(LlamaCppMemory, WeightsAreThoseOfGgufFiles) {
  const ModelShape model = llama_3_8b();
  const auto file_bytes = [&](std::int32_t bitwidth, double embedding_bits) {
    const MemoryQuery gguf{.preset = MemoryPreset::llama_cpp, .head_bitwidth = bitwidth};
    return 32 * layer_weight_bytes(model.layer_classes.front(), bitwidth, gguf) +
           embedding_bytes(model, StagePlace::last, gguf) + 128256 * 4096.0 * embedding_bits / 8;
  };
  // Published files of Llama-3-8B: Q3_K_M, Q4_K_M, Q8_0 and F16.
  EXPECT_NEAR(file_bytes(3, 3.4375) / 4.02e9, 1, 0.01);
  EXPECT_NEAR(file_bytes(4, 4.5) / 4.92e9, 1, 0.01);
  EXPECT_NEAR(file_bytes(8, 8.5) / 8.54e9, 1, 0.01);
  EXPECT_NEAR(file_bytes(16, 16) / 16.07e9, 1, 0.01);
}

TEST(LlamaCppMemory, TheEmbeddingIsWithTheHostAndBuffersAreOfOneStep) {
  const MemoryQuery gguf{.preset = MemoryPreset::llama_cpp, .head_bitwidth = 4};
  const ModelShape model = llama_3_8b();
  EXPECT_EQ(embedding_bytes(model, StagePlace::first, gguf), 0);
  EXPECT_EQ(embedding_bytes(model, StagePlace::only, gguf),
            embedding_bytes(model, StagePlace::last, gguf));
  const Workload one = workload(1, 128, 32), many = workload(16, 4096, 1024);
  for (const StagePlace place : {StagePlace::middle, StagePlace::last}) {
    const double bytes = prefill_activation_bytes(model, one, 1, place, gguf);
    EXPECT_EQ(bytes, prefill_activation_bytes(model, many, 16, place, gguf));
    EXPECT_EQ(bytes, decode_activation_bytes(model, many, 16, place, gguf));
  }
  // llama.cpp prints 258.5 MiB for the last of Llama-3-8B.
  EXPECT_NEAR(decode_activation_bytes(model, one, 1, StagePlace::last, gguf), 258.5 * kMiB, kMiB);
  const LayerShape& layer = model.layer_classes.front();
  const MemoryQuery q8{.preset = MemoryPreset::llama_cpp, .kv_bitwidth = 8};
  EXPECT_DOUBLE_EQ(layer_kv_bytes(layer, 1, 1, q8), 2 * 8 * 128 * 8.5 / 8);
}

// What the allocator loses of the T4's memory.
double slack_of(const Device& device) { return 0.003 * device.memory_bytes; }

TEST(VllmMemory, IsAShareOfWhatCudaShows) {
  const MemoryQuery vllm{.preset = MemoryPreset::vllm};
  Device device = test::t4();
  MemoryAccount account = empty_account(device, vllm, 1, 0.9);
  EXPECT_DOUBLE_EQ(account.usable_bytes, 0.9 * (device.memory_bytes - 0.2 * kGiB));
  EXPECT_DOUBLE_EQ(account.reserve_bytes, 0.16 * kGiB + slack_of(device));
  EXPECT_DOUBLE_EQ(empty_account(device, vllm, 2, 0.9).reserve_bytes,
                   0.20 * kGiB + slack_of(device));
  account.weight_bytes = 3 * kGiB;
  account.embedding_bytes = account.activation_bytes = account.kv_bytes = kGiB;
  EXPECT_DOUBLE_EQ(account.left_bytes(), account.usable_bytes - 6 * kGiB - account.reserve_bytes);
  for (const auto& [capability, hidden_bytes] :
       {std::pair(7.0, 0.0), {8.0, 0.0}, {8.6, 440 * kMiB}}) {
    device.compute_capability = capability;
    EXPECT_DOUBLE_EQ(empty_account(device, vllm, 1, 1).usable_bytes,
                     device.memory_bytes - hidden_bytes);
  }
}

TEST(VllmMemory, HangsOnItsVersion) {
  struct Row {
    const char* version;
    double utilisation, graph_gib;
  };
  const Device device = test::t4();
  for (const Row& row : {Row{"0.8.5", 0.9, 0}, Row{"0.20.2", 0.9, 0}, Row{"0.21.0", 0.9, 0.625},
                         Row{"0.22", 0.92, 0.625}, Row{"1.0", 0.92, 0.625}}) {
    const MemoryQuery vllm{.preset = MemoryPreset::vllm,
                           .version = runtime_version(row.version, "version")};
    const MemoryAccount account = empty_account(device, vllm, 1, std::nullopt, 32);
    EXPECT_DOUBLE_EQ(account.usable_bytes, row.utilisation * (device.memory_bytes - 0.2 * kGiB))
        << row.version;
    EXPECT_DOUBLE_EQ(account.reserve_bytes, (0.16 + row.graph_gib) * kGiB + slack_of(device))
        << row.version;
  }
  for (const char* text : {"", "new", "0", "0.", "0.x", "-1.2", "0.-1", "0.24x"}) {
    EXPECT_THROW(runtime_version(text, "version"), Error) << text;
  }
}

TEST(VllmMemory, GroupsUnderNvSwitchKeepMoreOnHopper) {
  const MemoryQuery vllm{.preset = MemoryPreset::vllm};
  Device device = test::t4();
  device.compute_capability = 9;
  device.nvlink_bytes_per_s.reset();
  const auto reserve = [&](std::int64_t degree) {
    return empty_account(device, vllm, degree).reserve_bytes;
  };
  const double alone = reserve(1), without = reserve(8);
  device.nvlink_bytes_per_s = 450e9;
  EXPECT_DOUBLE_EQ(reserve(8), without + 0.9 * kGiB);
  EXPECT_DOUBLE_EQ(reserve(1), alone);
}

// Two matrices of gpt-oss-20b: experts in 17 bytes for 32 numbers, by tiles of 128, others in
// BF16.
TEST(VllmMemory, Mxfp4IsOfExpertsAlone) {
  LayerShape layer;
  layer.linears = {{"q_proj", 2880, 4096, 1, 1}, {"experts.down_proj", 2880, 2880, 32, 4}};
  const MemoryQuery query{.mxfp4_experts = true};
  EXPECT_DOUBLE_EQ(layer_weight_bytes(layer, 4, query),
                   2880.0 * 4096 * 2 + 2944.0 * 2944 * 32 * 17 / 32);
  EXPECT_EQ(layer_weight_bytes(layer, 16, query), layer_weight_bytes(layer, 16, {}));
  EXPECT_LT(layer_weight_bytes(layer, 4, {}), layer_weight_bytes(layer, 4, query));
}

// Sines and cosines of 8192 positions, each 128 FP16 numbers, on every stage; OPT has a position
// table instead.
TEST(VllmMemory, RotaryTablesAreOnEveryDevice) {
  const MemoryQuery vllm{MemoryPreset::vllm, 16, 128};
  for (const StagePlace place : kStagePlaces) {
    EXPECT_EQ(embedding_bytes(llama_3_8b(), place, vllm),
              embedding_bytes(llama_3_8b(), place, kPhysical) + 8192 * 128 * 2);
    EXPECT_EQ(embedding_bytes(opt_13b(), place, vllm),
              embedding_bytes(opt_13b(), place, kPhysical));
  }
}

// A step of 2048 tokens leaves its hidden states; 256 requests are sampled from the vocabulary.
TEST(VllmMemory, SamplingIsThePeakOfSmallModels) {
  const MemoryQuery vllm{MemoryPreset::vllm, 16, 128};
  const ModelShape model = llama_3_8b();
  EXPECT_EQ(step_activation_bytes(model, model, 2048, 256, StagePlace::only, vllm),
            2048.0 * 4096 * 2 + 256.0 * 128256 * 38);
  EXPECT_EQ(step_activation_bytes(model, model, 8, 256, StagePlace::only, vllm),
            8.0 * 4096 * 2 + 8.0 * 128256 * 38)
      << "no more requests than tokens";
  const Workload step = workload(1, 2048, 1);
  EXPECT_EQ(step_activation_bytes(model, model, 2048, 256, StagePlace::first, vllm),
            prefill_activation_bytes(model, step, 1, StagePlace::first, vllm));
}

TEST(Memory, RefusesNonsense) {
  const LayerShape layer = opt_30b().layer_classes.front();
  const Workload batch = workload(4, 512, 10);
  MemoryQuery query;
  for (const std::int32_t kv_bitwidth : {kMinKvBitwidth - 1, kMaxKvBitwidth + 1}) {
    query.kv_bitwidth = kv_bitwidth;
    EXPECT_THROW(layer_kv_bytes(layer, batch, query), Error);
  }
  query = {};
  query.group_size = -1;
  EXPECT_THROW(layer_weight_bytes(layer, 4, query), Error);
  EXPECT_THROW(layer_weight_bytes(layer, 0, kPhysical), Error);
  EXPECT_THROW(decode_activation_bytes(opt_30b(), batch, 0, StagePlace::only, kPhysical), Error);
}

}  // namespace
}  // namespace tessera::cost::memory_test
