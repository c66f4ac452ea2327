#include "tessera/kernels/cuda/gemm.h"

#include <numeric>

#include "gpu_support.h"

// dequant_gemm against sums in double of what kernels::dequantise makes of the same codes.
namespace tessera::kernels::test::gemm_test {
namespace {

struct Case {
  Real type;
  std::int64_t tokens, rows, columns;
  QuantFormat format;
  std::int64_t stride_extra = 0, misalign = 0;
  float mean = 0;  // of the activations, whose standard deviation is 1
};

std::string describe_case(const Case& c, const cuda::GemmPlan& plan) {
  return "type " + std::to_string(static_cast<int>(c.type)) + ", " + std::to_string(c.tokens) +
         " x " + std::to_string(c.rows) + " x " + std::to_string(c.columns) + ", W" +
         std::to_string(c.format.bitwidth) + (c.format.symmetric ? " symmetric" : " asymmetric") +
         ", group " + std::to_string(c.format.group_size) + ", scales " +
         std::to_string(static_cast<int>(c.format.scale_type)) + ", stride + " +
         std::to_string(c.stride_extra) + ", kernel " +
         std::to_string(static_cast<int>(plan.kernel)) + ", splits " + std::to_string(plan.splits);
}

/// Random weights in a format.
struct Weights {
  Weights(const Case& c, std::mt19937_64& random) {
    const std::int64_t groups = num_groups(c.columns, c.format.group_size);
    const int low = lowest_code(c.format), high = highest_code(c.format);
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i)
      codes.push_back(static_cast<std::uint8_t>(uniform(random, low, high)));
    for (std::int64_t i = 0; i < c.rows * groups; ++i) {
      // Eight bits of mantissa: a number of every scale type.
      scale.push_back(static_cast<float>(uniform(random, 1, 255)) / 4096);
      zero.push_back(static_cast<std::uint8_t>(
          c.format.symmetric ? symmetric_zero_point(c.format.bitwidth) : uniform(random, 0, high)));
    }
  }
  std::vector<std::uint8_t> codes, zero;
  std::vector<float> scale;
};

std::vector<double> product(const RandomMatrix& x, const Weights& w, const Case& c) {
  std::vector<float> values(w.codes.size());
  EXPECT_EQ(dequantise(w.codes.data(), {0, c.rows}, c.columns, c.format, w.scale.data(),
                       w.zero.data(), values.data()),
            Status::ok);
  std::vector<double> out;
  for (std::int64_t token = 0; token < c.tokens; ++token)
    for (std::int64_t row = 0; row < c.rows; ++row)
      out.push_back(std::inner_product(values.begin() + row * c.columns,
                                       values.begin() + (row + 1) * c.columns,
                                       x.values.begin() + token * x.stride, 0.0));
  return out;
}

void check(const cuda::Device& device, const Case& c, std::mt19937_64& random,
           cuda::Stream stream = nullptr) {
  const cuda::GemmPlan plan =
      cuda::plan_dequant_gemm(device, c.type, c.tokens, c.rows, c.columns, c.format);
  if (c.type == Real::bf16 && device.compute_capability < 80) {
    EXPECT_EQ(plan.status, Status::unsupported);
    EXPECT_NE(std::string(plan.reason).find("sm_80"), std::string::npos);
    return;
  }
  ASSERT_EQ(plan.status, Status::ok) << plan.reason;
  SCOPED_TRACE(describe_case(c, plan));
  const Weights weights(c, random);
  const RandomMatrix x(c.type, c.tokens, c.columns, c.columns + c.stride_extra, random, c.mean);
  const std::int64_t out_stride = c.rows + 3;
  const DeviceArray<std::uint8_t> codes(weights.codes), zero(weights.zero);
  const DeviceArray<float> scale(weights.scale);
  const DeviceArray<unsigned char> activations(x.bytes, c.misalign);
  DeviceArray<unsigned char> packed(cuda::packed_weights_bytes(c.rows, c.columns, c.format));
  DeviceArray<unsigned char> workspace(plan.workspace_bytes);
  DeviceArray<float> out((c.tokens - 1) * out_stride + c.rows);
  ASSERT_EQ(cuda::pack_weights(codes.data(), c.rows, c.columns, c.format, scale.data(),
                               c.format.symmetric ? nullptr : zero.data(), packed.data(), stream),
            Status::ok);
  ASSERT_EQ(cuda::dequant_gemm(plan, x.on(activations.data()),
                               {c.rows, c.columns, c.format, packed.data()}, out.data(), out_stride,
                               workspace.data(), stream),
            Status::ok);
  ASSERT_EQ(device_synchronise(), "");

  const std::vector<float> all = out.download();
  std::vector<float> got;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(all.size()); ++i) {
    const float value = all[static_cast<std::size_t>(i)];
    if (i % out_stride < c.rows) {
      got.push_back(value);
    } else {
      EXPECT_TRUE(std::isnan(value)) << "between the rows of the output, element " << i;
    }
  }
  // Tensor cores cut sums instead of rounding them, wmma rounds each weight, and where all
  // activations have one sign the decode kernels take a large sum from a large sum.
  const bool tensor =
      plan.kernel != cuda::GemmKernel::fma && plan.kernel != cuda::GemmKernel::fma_decode;
  const double allowed = plan.kernel == cuda::GemmKernel::wmma || c.mean != 0 ? 1e-6
                         : tensor                                             ? 1e-7
                                                                              : 1e-11;
  const double error = nmse(got, product(x, weights, c));
  EXPECT_LE(error, allowed);
  EXPECT_EQ(out.num_touched() + packed.num_touched() + workspace.num_touched(), 0);
}

QuantFormat any_format(std::mt19937_64& random) {
  const int bitwidths[] = {3, 4, 8};
  const std::int64_t group_sizes[] = {0, 32, 64, 96, 128, 256};
  return {bitwidths[uniform(random, 0, 2)], uniform(random, 0, 1) == 0,
          group_sizes[uniform(random, 0, 5)], static_cast<Real>(uniform(random, 0, 2))};
}

TEST(CudaGemm, EveryNumberOfTokensMatchesTheReference) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed());
    for (const std::int64_t tokens : {1, 2, 3, 4, 7, 8, 15, 16, 17, 33, 64, 65, 200}) {
      for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
        const std::int64_t large = emulated() ? 1 : 8;
        const Case c{type,
                     tokens,
                     uniform(random, 1, (tokens > 60 ? 80 : 200) * large),
                     uniform(random, 1, (tokens > 60 ? 150 : 400) * large),
                     any_format(random),
                     uniform(random, 0, 9),
                     uniform(random, 0, 1) * 4};
        check(device, c, random);
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

TEST(CudaGemm, EveryFormatMatchesTheReference) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed() + 1);
    for (const int bitwidth : {3, 4, 8})
      for (const bool symmetric : {true, false})
        for (const std::int64_t group_size : {0, 32, 64, 128})
          for (const Real type : {Real::f16, Real::bf16}) {
            const auto scale_type = static_cast<Real>(uniform(random, 0, 2));
            const std::int64_t tokens = uniform(random, 0, 1) == 0 ? 2 : 9;
            check(device, {type, tokens, 48, 288, {bitwidth, symmetric, group_size, scale_type}},
                  random);
            if (::testing::Test::HasFailure()) return;
          }
  });
}

TEST(CudaGemm, ActivationsOfOneSignKeepTheirAccuracy) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed() + 5);
    for (const int bitwidth : {3, 4, 8})
      for (const Real type : {Real::f16, Real::bf16})
        for (const std::int64_t tokens : {3, 12}) {
          check(device, {type, tokens, 32, 2048, {bitwidth, true, 128, Real::f16}, 0, 0, 10.0f},
                random);
          if (::testing::Test::HasFailure()) return;
        }
  });
}

TEST(CudaGemm, SplitsOverKMatchTheReference) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed() + 2);
    const QuantFormat format{8, false, 64, Real::f16};
    const std::int64_t columns = emulated() ? 2100 : 8200;
    if (device.compute_capability >= 75) {
      EXPECT_GT(cuda::plan_dequant_gemm(device, Real::f16, 20, 40, columns, format).splits, 1);
    }
    check(device, {Real::f16, 20, 40, columns, format}, random);
  });
}

TEST(CudaGemm, RunsOnStreams) {
  for_each_device([](const cuda::Device& device) {
    std::mt19937_64 random(gpu_seed() + 3);
    for (int i = 0; i < 2; ++i) {
      const cuda::Stream stream = make_stream();
      check(device, {Real::f16, 6, 100, 260, {4, false, 128, Real::f16}}, random, stream);
      destroy_stream(stream);
    }
  });
}

TEST(CudaGemm, TheSameCallGivesTheSameBits) {
  for_each_device([](const cuda::Device& device) {
    const Case c{Real::f16, 24, 64, 2100, {4, true, 128, Real::f16}};
    const cuda::GemmPlan plan =
        cuda::plan_dequant_gemm(device, c.type, c.tokens, c.rows, c.columns, c.format);
    std::mt19937_64 random(gpu_seed() + 4);
    const Weights weights(c, random);
    const RandomMatrix x(c.type, c.tokens, c.columns, c.columns, random);
    const DeviceArray<std::uint8_t> codes(weights.codes);
    const DeviceArray<float> scale(weights.scale);
    const DeviceArray<unsigned char> activations(x.bytes);
    DeviceArray<unsigned char> packed(cuda::packed_weights_bytes(c.rows, c.columns, c.format));
    ASSERT_EQ(cuda::pack_weights(codes.data(), c.rows, c.columns, c.format, scale.data(), nullptr,
                                 packed.data(), nullptr),
              Status::ok);
    std::vector<float> first;
    for (int i = 0; i < 3; ++i) {
      use_device(device);  // another order of threads in the emulator
      DeviceArray<unsigned char> workspace(plan.workspace_bytes);
      DeviceArray<float> out(c.tokens * c.rows);
      ASSERT_EQ(cuda::dequant_gemm(plan, x.on(activations.data()),
                                   {c.rows, c.columns, c.format, packed.data()}, out.data(), c.rows,
                                   workspace.data(), nullptr),
                Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      const auto got = out.download();
      if (i == 0) first = got;
      EXPECT_EQ(got, first);
    }
  });
}

}  // namespace
}  // namespace tessera::kernels::test::gemm_test
