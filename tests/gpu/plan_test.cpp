#include <gtest/gtest.h>

#include <string>

#include "tessera/kernels/cuda/gemm.h"
#include "tessera/kernels/cuda/int8.h"
#include "tessera/kernels/cuda/moments.h"
#include "tessera/kernels/cuda/quantise.h"

// What is decided and refused before anything reaches a GPU.
namespace tessera::kernels::cuda::plan_test {
namespace {

constexpr QuantFormat kW4{4, true, 128, Real::f16};

GemmKernel kernel_of(int capability, Real type, std::int64_t tokens) {
  const GemmPlan plan = plan_dequant_gemm({capability, 108}, type, tokens, 4096, 4096, kW4);
  EXPECT_EQ(plan.status, Status::ok);
  EXPECT_EQ(plan.reason, nullptr);
  return plan.kernel;
}

TEST(CudaPlan, ChoosesByTokensAndArchitecture) {
  EXPECT_EQ(kernel_of(80, Real::f16, 1), GemmKernel::decode);
  EXPECT_EQ(kernel_of(75, Real::f16, 8), GemmKernel::decode);
  EXPECT_EQ(kernel_of(80, Real::bf16, 9), GemmKernel::decode_16);
  EXPECT_EQ(kernel_of(75, Real::f16, 16), GemmKernel::decode_16);
  EXPECT_EQ(kernel_of(90, Real::f16, 17), GemmKernel::tile_32);
  EXPECT_EQ(kernel_of(90, Real::f16, 64), GemmKernel::tile_64);
  EXPECT_EQ(kernel_of(120, Real::f16, 65), GemmKernel::tile_128);
  EXPECT_EQ(kernel_of(90, Real::f32, 1), GemmKernel::fma_decode);
  EXPECT_EQ(kernel_of(90, Real::f32, 100), GemmKernel::fma);
  EXPECT_EQ(kernel_of(70, Real::f16, 1), GemmKernel::fma_decode);
  EXPECT_EQ(kernel_of(70, Real::f16, 8), GemmKernel::wmma);
  EXPECT_EQ(kernel_of(60, Real::f16, 8), GemmKernel::fma);
  EXPECT_EQ(kernel_of(61, Real::f16, 8), GemmKernel::fma);
}

TEST(CudaPlan, SaysWhyItRefuses) {
  const auto reason = [](Device device, Real type, std::int64_t tokens, QuantFormat format) {
    const GemmPlan plan = plan_dequant_gemm(device, type, tokens, 4096, 4096, format);
    EXPECT_EQ(plan.status, Status::unsupported);
    return std::string(plan.reason == nullptr ? "" : plan.reason);
  };
  EXPECT_NE(reason({75, 40}, Real::bf16, 1, kW4).find("bf16"), std::string::npos);
  EXPECT_NE(reason({52, 40}, Real::f16, 1, kW4).find("sm_60"), std::string::npos);
  EXPECT_NE(reason({80, 40}, Real::f16, 1, {4, true, 48, Real::f16}).find("multiple of 32"),
            std::string::npos);
  EXPECT_NE(reason({80, 40}, Real::f16, 1, {5, true, 128, Real::f16}).find("3, 4 or 8"),
            std::string::npos);
  EXPECT_NE(reason({80, 40}, Real::f16, std::int64_t{1} << 22, kW4).find("2^21"),
            std::string::npos);
  EXPECT_EQ(plan_dequant_gemm({80, 40}, Real::f16, 0, 8, 8, kW4).status, Status::invalid_argument);
}

TEST(CudaPlan, SplitsFillTheGpuAndStayLong) {
  for (const std::int64_t tokens : {1, 8, 16, 17, 32, 64, 200})
    for (const std::int64_t rows : {576, 4096, 11008})
      for (const std::int64_t columns : {576, 4096, 8192}) {
        const GemmPlan plan = plan_dequant_gemm({90, 132}, Real::f16, tokens, rows, columns, kW4);
        EXPECT_GE(plan.splits, 1);
        EXPECT_EQ(plan.workspace_bytes, plan.splits == 1 ? 0 : plan.splits * tokens * rows * 4);
        EXPECT_GE(columns, plan.splits > 1 ? 512 * plan.splits : 0);
      }
  // 32 blocks of the 132 that it takes, and 1024.
  EXPECT_GE(plan_dequant_gemm({90, 132}, Real::f16, 64, 4096, 4096, kW4).splits, 4);
  EXPECT_EQ(plan_dequant_gemm({90, 132}, Real::f16, 2048, 8192, 8192, kW4).splits, 1);
  EXPECT_GT(plan_dequant_gemm({90, 132}, Real::f16, 17, 4096, 4096, kW4).splits, 1);
}

TEST(CudaPlan, PackedSizes) {
  // 4096 x 4096 at 4 bits, 32 groups a row with a scale of 2 bytes and, asymmetric, a zero point of
  // one.
  EXPECT_EQ(packed_weights_bytes(4096, 4096, kW4), 4096 * 4096 / 2 + 4096 * 32 * 2);
  EXPECT_EQ(packed_weights_bytes(4096, 4096, {4, false, 128, Real::f16}),
            4096 * 4096 / 2 + 4096 * 32 * 3);
  EXPECT_EQ(packed_weights_bytes(4096, 4096, {3, true, 0, Real::f32}),
            4096 * 4096 / 8 * 3 + 4096 * 4);
  EXPECT_EQ(packed_weights_bytes(1, 1, {8, true, 0, Real::f32}),
            1024 + 256);  // a tile and its scales
  EXPECT_EQ(packed_weights_bytes(0, 4096, kW4), 0);
  EXPECT_EQ(packed_weights_bytes(16, 4096, {4, true, 40, Real::f16}), 0);
  EXPECT_NE(packed_weights_bytes(16, 30, {4, true, 40, Real::f16}), 0);  // one group
}

TEST(CudaArguments, AreChecked) {
  alignas(256) static unsigned char memory[4096];
  float* f = reinterpret_cast<float*>(memory);
  const Matrix x{memory, Real::f16, 2, 64, 64};
  const PackedWeights weights{16, 64, kW4, memory};
  const GemmPlan plan = plan_dequant_gemm({80, 40}, Real::f16, 2, 16, 64, kW4);
  const auto run = [&](Matrix a, PackedWeights w, float* out, std::int64_t stride) {
    return dequant_gemm(plan, a, w, out, stride, nullptr, nullptr);
  };
  EXPECT_EQ(run({nullptr, Real::f16, 2, 64, 64}, weights, f, 16), Status::invalid_argument);
  EXPECT_EQ(run({memory, Real::f16, 2, 63, 64}, weights, f, 16), Status::invalid_argument);
  EXPECT_EQ(run({memory, Real::f16, 2, 64, 60}, weights, f, 16), Status::invalid_argument);
  EXPECT_EQ(run({memory, Real::f16, 9, 64, 64}, weights, f, 16),
            Status::invalid_argument);  // plan for fewer
  EXPECT_EQ(run(x, {16, 64, kW4, memory + 16}, f, 16), Status::invalid_argument);
  EXPECT_EQ(run(x, weights, nullptr, 16), Status::invalid_argument);
  EXPECT_EQ(run(x, weights, f, 15), Status::invalid_argument);
  GemmPlan split = plan;
  split.kernel = GemmKernel::tile_32;
  split.splits = 2;
  EXPECT_EQ(dequant_gemm(split, x, weights, f, 16, nullptr, nullptr), Status::invalid_argument);
  EXPECT_EQ(dequant_gemm(split, x, weights, f, 16, memory, nullptr),
            Status::invalid_argument);  // too small
  const GemmPlan refused = plan_dequant_gemm({75, 40}, Real::bf16, 2, 16, 64, kW4);
  EXPECT_EQ(dequant_gemm(refused, x, weights, f, 16, nullptr, nullptr), Status::unsupported);

  EXPECT_EQ(pack_weights(memory, 16, 64, {4, false, 128, Real::f16}, f, nullptr, memory, nullptr),
            Status::invalid_argument);
  EXPECT_EQ(moments(nullptr, Real::f32, 4, memory, nullptr, nullptr), Status::invalid_argument);
  EXPECT_EQ(group_moments({memory, Real::f32, 2, 8, 7}, 0, nullptr, nullptr),
            Status::invalid_argument);
  EXPECT_EQ(choose_scales(x, {5, true, 0, Real::f32}, f, memory, nullptr),
            Status::invalid_argument);
  EXPECT_EQ(
      quantise(x, {4, false, 0, Real::f32}, f, nullptr, Rounding::nearest, 0, memory, nullptr),
      Status::invalid_argument);
  EXPECT_EQ(dequantise(memory, 0, 8, kW4, f, nullptr, f, nullptr), Status::invalid_argument);
  EXPECT_EQ(pack(memory, 1, 8, 5, memory, nullptr), Status::invalid_argument);
  EXPECT_EQ(unpack(memory, 1, 8, 4, nullptr, nullptr), Status::invalid_argument);
  auto* codes = reinterpret_cast<std::int8_t*>(memory);
  EXPECT_EQ(quantise_rows(x, nullptr, nullptr, f, nullptr), Status::invalid_argument);
  EXPECT_EQ(int8_gemm({80, 40}, codes, f, 2, {16, 64, codes, f}, f, 15, nullptr),
            Status::invalid_argument);
  EXPECT_EQ(int8_gemm({80, 40}, codes, f, 2, {16, 200000, codes, f}, f, 16, nullptr),
            Status::unsupported);
  std::int64_t count;
  EXPECT_EQ(find_outlier_columns(x, 0, memory, &count, nullptr), Status::invalid_argument);
  EXPECT_EQ(add_outlier_product(x, memory, {memory, Real::f16, 16, 63, 64}, f, 16, memory, nullptr),
            Status::invalid_argument);
}

}  // namespace
}  // namespace tessera::kernels::cuda::plan_test
