// Floats of four bits: which kernels run a checkpoint in NVFP4 or MXFP4 where, and what they take.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tessera/core/cluster.h"
#include "tessera/core/json.h"
#include "tessera/core/units.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/memory.h"
#include "tessera/cost/op.h"
#include "tessera/cost/profile.h"

namespace tessera::cost::float4_test {
namespace {

const DataFolders& datasets() {
  static const DataFolders folders({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return folders;
}

ModelShape shipped_model(const std::string& name) {
  const std::string path = datasets().require("models", name);
  return model_from_json(read_json_file(path), path);
}

const KernelRule& rule(const KernelSet& set, const char* device) {
  const KernelRule* found = set.find(find_device(device, datasets()), 4);
  EXPECT_NE(found, nullptr) << device;
  return *found;
}

double gemm_s(const char* device, const char* set, const char* dtype, double m, double n,
              double k) {
  const KernelSet kernels = find_kernel_set(set, datasets());
  const auto model =
      make_profiled(profile_for(find_device(device, datasets()), kernels, datasets()), kernels);
  OpQuery query;
  query.dtype = dtype;
  query.m = m;
  query.n = n;
  query.k = k;
  return model->op(query).seconds.value;
}

/// A layer of a model on one device at a bitwidth: of `rows` sequences of 1,000 tokens a step.
double decode_layer_s(const std::string& model, const char* device, const char* set,
                      std::int32_t bitwidth, double rows) {
  Cluster cluster = cluster_from_text(std::string("1x") + device, datasets());
  const PricingContext context =
      pricing_context(shipped_model(model), std::move(cluster), {bitwidth}, set, datasets());
  return latency_model_of(context, {0})
      ->layer_s(context.model.layer(0), bitwidth, 16, {Phase::decode, rows, 1, 1000});
}

TEST(Float4, OfAnNvidiaCheckpointRunsOnBlackwellAndIsExpandedElsewhere) {
  for (const char* name : {"modern_fp4", "vllm_fp4"}) {
    const KernelSet set = find_kernel_set(name, datasets());
    for (const char* blackwell : {"B200-180G", "B300", "GB200", "RTX-PRO-6000", "RTX-5090"}) {
      EXPECT_EQ(rule(set, blackwell).dtype, "nvfp4") << name << " " << blackwell;
    }
    for (const char* older : {"A100-80G", "L40S", "H100-80G", "H200-141G"}) {
      EXPECT_EQ(rule(set, older).dtype, "int4_wo") << name << " " << older;
    }
  }
  // A sheet without the rate is of a GPU that has none.
  Device sheet = find_device("B200-180G", datasets());
  sheet.flop_per_s.erase("fp4");
  EXPECT_EQ(find_kernel_set("vllm_fp4", datasets()).find(sheet, 4)->dtype, "int4_wo");
}

// 8,192 rows of 8,192 x 8,192 on B200: measured 0.29 ms in NVFP4 by TensorRT-LLM, 0.26 by vLLM, and
// 0.50 and 0.72 in FP8.
TEST(Float4, ProductsTakeWhatB200Measured) {
  EXPECT_NEAR(gemm_s("B200-180G", "vllm_fp4", "nvfp4", 8192, 8192, 8192), 258e-6, 40e-6);
  EXPECT_NEAR(gemm_s("B200-180G", "vllm_fp4", "nvfp4", 64, 8192, 8192), 12.9e-6, 2.5e-6);
  EXPECT_NEAR(gemm_s("B200-180G", "modern_fp4", "nvfp4", 1024, 8192, 8192), 44e-6 - 28e-6, 14e-6);
  for (const char* set : {"modern_fp4", "vllm_fp4"}) {
    for (const double m : {1024, 4096, 8192}) {
      const double fp4 = gemm_s("B200-180G", set, "nvfp4", m, 28672, 8192);
      const double fp8 = gemm_s("B200-180G", set, "fp8", m, 28672, 8192);
      EXPECT_GT(fp8 / fp4, 1.25) << set << " " << m;
      EXPECT_LT(fp8 / fp4, 3.5) << set << " " << m;
    }
  }
}

TEST(Float4, OfGptOssIsOfItsExpertsAlone) {
  const KernelSet vllm = find_kernel_set("vllm", datasets());
  EXPECT_EQ(rule(vllm.mxfp4_rules(), "H100-80G").dtype, "w4a16_mxfp4");
  EXPECT_EQ(rule(vllm.mxfp4_rules(), "B200-180G").dtype, "w4a8_mxfp4_mxfp8");
  EXPECT_EQ(rule(vllm.mxfp4_rules(), "RTX-5090").dtype, "w4a16_mxfp4");
  EXPECT_EQ(rule(vllm, "H100-80G").experts_token_bytes, 0);
  EXPECT_EQ(rule(vllm.mxfp4_rules(), "H100-80G").experts_token_bytes, 270e3);
  EXPECT_FALSE(rule(vllm, "H100-80G").experts_only);
  EXPECT_TRUE(rule(vllm.mxfp4_rules(), "H100-80G").experts_only);
  EXPECT_EQ(vllm.mxfp4_rules().find(find_device("H100-80G", datasets()), 8)->dtype,
            vllm.find(find_device("H100-80G", datasets()), 8)->dtype);
}

// Marlin's are padded, 2,880 to 3,072 hidden features and 720 of a device's share to 768; those
// that Blackwell runs were measured as they are.
TEST(Float4, OfGptOssIsPaddedForMarlin) {
  for (const bool hopper : {true, false}) {
    const Device device = find_device(hopper ? "H200-141G" : "B200-180G", datasets());
    KernelSet padded = find_kernel_set("vllm", datasets()).mxfp4_rules(), plain = padded;
    for (KernelRule& each : plain.rules) {
      each.mxfp4_hidden_multiple = each.mxfp4_inner_multiple = 1;
    }
    const auto profile = profile_for(device, padded, datasets());
    LayerShape layer = shipped_model("gpt-oss-120b").layer(0);
    for (LinearShape& linear : layer.linears) {
      if (linear.name.starts_with("experts.")) {
        (linear.name == "experts.down_proj" ? linear.in_features : linear.out_features) = 720;
      }
    }
    const auto experts_s = [&](const KernelSet& kernels) {
      return make_profiled(profile, kernels)->experts_s(layer, 4, {Phase::prefill, 1, 4096, 0});
    };
    OpQuery by_hand, router;
    router.dtype = "bfloat16";
    router.m = 4096;
    router.n = 128;
    router.k = 2880;
    by_hand.op = Op::experts;
    by_hand.dtype = hopper ? "w4a16_mxfp4" : "w4a8_mxfp4_mxfp8";
    by_hand.tokens = by_hand.batch_size = 4096;
    by_hand.hidden_size = hopper ? 3072 : 2880;
    by_hand.inner_size = hopper ? 768 : 720;
    by_hand.num_experts = 128;
    by_hand.top_k = 4;
    const auto model = make_profiled(profile, padded);
    const double by_hand_s = model->op(by_hand).seconds.value + model->op(router).seconds.value;
    EXPECT_NEAR(experts_s(padded), by_hand_s, 1e-9);
    const double more = experts_s(padded) / experts_s(plain);
    EXPECT_GE(more, hopper ? 1.05 : 1);
    EXPECT_LE(more, hopper ? 1.2 : 1);
  }
}

// Matrices of one byte a second: 4 x 4 in 16 bits, and of experts in 4.
TEST(Float4, LeavesDenseMatricesIn16Bits) {
  LayerShape layer;
  layer.linears = {{"o_proj", 4, 4}, {"experts.up_proj", 4, 8, 2, 2}};
  layer.num_heads = layer.num_kv_heads = layer.head_dim = 1;
  KernelSet set;
  set.attention_flop_ratio = set.attention_memory_ratio = 1;
  for (const std::int32_t bitwidth : {4, 16}) {
    KernelRule each;
    each.bitwidth = bitwidth;
    each.flop_ratio = each.memory_ratio = 1;
    set.rules.push_back(each);
  }
  Device device;
  device.flop_per_s["fp16"] = 1e30;
  device.memory_bytes_per_s = 1;
  const auto seconds = [&](const KernelSet& kernels, std::int32_t bitwidth) {
    return make_roofline(device, kernels)->layer_s(layer, bitwidth, 16, {Phase::decode, 1, 1, 0});
  };
  const double all = seconds(set, 16) - seconds(set, 4);
  const double experts = seconds(set.mxfp4_rules(), 16) - seconds(set.mxfp4_rules(), 4);
  const double scales_of_dense = 4 * 2.5;  // a row's scale and zero point
  EXPECT_DOUBLE_EQ(all - experts, 4 * 4 * 1.5 - scales_of_dense);
}

// Experts are most of a layer of gpt-oss-120b, and take a fourth of the bytes.
TEST(Float4, LayersOfGptOssTakeTheirExpertsTime) {
  for (const char* device : {"H200-141G", "B200-180G"}) {
    const double four = decode_layer_s("gpt-oss-120b", device, "vllm", 4, 64);
    const double full = decode_layer_s("gpt-oss-120b", device, "vllm", 16, 64);
    EXPECT_GT(full / four, 1.5) << device;
    EXPECT_LT(full / four, 4) << device;
  }
}

// DeepSeek's attention by its own table, TensorRT-LLM on H200, 16 of 128 heads on a GPU: a step of
// 64 sequences of 4,096 tokens, 115 us; a prompt of 4,096 tokens, 206 us.
TEST(Latent, AttentionOfDeepSeekTakesWhatH200Measured) {
  const DataFolders& folders = datasets();
  const auto profile = find_profile("H200-141G", "modern_fp8", folders);
  ASSERT_NE(profile, nullptr);
  OpQuery query;
  query.op = Op::attention;
  query.name = "latent";
  query.dtype = "bfloat16";
  query.phase = Phase::decode;
  query.batch_size = 64;
  query.tokens = query.num_kv_heads = 1;
  query.context_tokens = 4095;
  query.num_heads = 16;
  query.head_dim = 288;
  ASSERT_NE(profile->find(query), nullptr);
  EXPECT_NEAR(profile->find(query)->model->seconds(query), 115e-6, 23e-6);
  query.phase = Phase::prefill;
  query.batch_size = 1;
  query.tokens = 4096;
  query.context_tokens = 0;
  query.num_kv_heads = 16;
  query.head_dim = 192;
  EXPECT_NEAR(profile->find(query)->model->seconds(query), 206e-6, 42e-6);
}

// What vLLM printed after loading a whole checkpoint whose experts Marlin pads: gpt-oss-120b on an
// H100 (vllm#23278), gpt-oss-20b on an A100 (vLLM 0.19, myoceane.fr). By tiles of 128 alone they
// come out 4 and 3 % smaller.
TEST(Float4, PaddedExpertsTakeTheMemoryThatVllmPrinted) {
  const KernelSet kernels = find_kernel_set("vllm", datasets());
  for (const auto& [name, printed_gib] :
       {std::pair{"gpt-oss-120b", 65.9651}, std::pair{"gpt-oss-20b", 13.72}}) {
    const ModelShape model = shipped_model(name);
    const MemoryQuery query = of_checkpoint({.preset = MemoryPreset::vllm}, model, kernels);
    double bytes = embedding_bytes(model, StagePlace::only, query);
    for (std::int64_t i = 0; i < model.num_layers; ++i) {
      bytes += layer_weight_bytes(model.layer(i), 4, query);
    }
    EXPECT_NEAR(bytes / kGiB, printed_gib, 0.01 * printed_gib) << name;
  }
}

}  // namespace
}  // namespace tessera::cost::float4_test
