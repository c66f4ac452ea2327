#include "gpu_support.h"
#include "tessera/kernels/cuda/int8.h"
#include "tessera/kernels/cuda/moments.h"
#include "tessera/kernels/cuda/quantise.h"
#include "tessera/kernels/pack.h"

// Moments, scales, codes and packing against the CPU's kernels: bit for bit, except mean and
// variance.
namespace tessera::kernels::test::reductions_test {
namespace {

void expect_same(const Moments& got, const Moments& expected) {
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.num_not_finite, expected.num_not_finite);
  EXPECT_EQ(got.min, expected.min);
  EXPECT_EQ(got.max, expected.max);
  const double deviation = std::sqrt(expected.variance);
  EXPECT_NEAR(got.mean, expected.mean, 1e-5 * deviation + 1e-12 * std::fabs(expected.mean));
  EXPECT_NEAR(got.variance, expected.variance, 1e-4 * expected.variance);
}

std::int64_t some_stride(std::mt19937_64& random, std::int64_t columns) {
  return columns + uniform(random, 0, 8);
}

TEST(CudaMoments, OfATensor) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed());
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const std::int64_t count : {1, 31, 1000, 20001}) {
        for (const std::int64_t misalign : {0, 4}) {
          RandomMatrix x(type, 1, count, count, random);
          const DeviceArray<unsigned char> data(x.bytes, misalign);
          DeviceArray<unsigned char> workspace(cuda::moments_workspace_bytes(count));
          DeviceArray<Moments> out(1);
          ASSERT_EQ(cuda::moments(data.data(), type, count, workspace.data(), out.data(), nullptr),
                    Status::ok);
          ASSERT_EQ(device_synchronise(), "");
          Moments expected;
          ASSERT_EQ(moments(x.bytes.data(), type, count, &expected), Status::ok);
          expect_same(out.download()[0], expected);
          EXPECT_EQ(out.num_touched() + workspace.num_touched(), 0);
        }
      }
    }
  });
}

TEST(CudaMoments, SurviveHugeMeansHugeValuesAndNaN) {
  for_each_device([](const cuda::Device&) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    std::vector<std::vector<float>> cases;
    std::mt19937_64 random(gpu_seed());
    std::normal_distribution<float> normal(1e6f, 1.0f);
    cases.emplace_back();
    for (int i = 0; i < 5000; ++i) cases.back().push_back(normal(random));
    cases.push_back({1e30f, -1e30f, 3e38f, 1, 2, 3});
    cases.push_back({kInf, -kInf, std::nanf(""), 1, 5});
    cases.push_back({std::nanf("")});
    for (const auto& values : cases) {
      const auto count = static_cast<std::int64_t>(values.size());
      const DeviceArray<float> data(values);
      DeviceArray<unsigned char> workspace(cuda::moments_workspace_bytes(count));
      DeviceArray<Moments> out(1);
      ASSERT_EQ(cuda::moments(data.data(), Real::f32, count, workspace.data(), out.data(), nullptr),
                Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      Moments expected;
      ASSERT_EQ(moments(values.data(), Real::f32, count, &expected), Status::ok);
      expect_same(out.download()[0], expected);
    }
  });
}

TEST(CudaMoments, OfGroups) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 1);
    for (const std::int64_t group_size : {0, 32, 50, 128, 2500}) {
      const std::int64_t rows = uniform(random, 1, 9), columns = uniform(random, 1, 3000);
      const RandomMatrix x(Real::f16, rows, columns, some_stride(random, columns), random);
      const std::int64_t count = rows * num_groups(columns, group_size);
      const DeviceArray<unsigned char> data(x.bytes);
      DeviceArray<Moments> out(count);
      ASSERT_EQ(cuda::group_moments(x.on(data.data()), group_size, out.data(), nullptr),
                Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      std::vector<Moments> expected(static_cast<std::size_t>(count));
      ASSERT_EQ(group_moments(x.on(x.bytes.data()), {0, rows}, group_size, expected.data()),
                Status::ok);
      const auto got = out.download();
      for (std::size_t i = 0; i < got.size(); ++i) expect_same(got[i], expected[i]);
      EXPECT_EQ(out.num_touched(), 0);
    }
  });
}

void check_codes(QuantFormat format, Rounding rounding, std::mt19937_64& random) {
  const std::int64_t rows = uniform(random, 1, 9), columns = uniform(random, 1, 700);
  const auto type = static_cast<Real>(uniform(random, 0, 2));
  const RandomMatrix x(type, rows, columns, some_stride(random, columns), random);
  const std::int64_t count = rows * columns, groups = rows * num_groups(columns, format.group_size);
  const std::uint64_t codes_seed = random();
  std::vector<float> scale(static_cast<std::size_t>(groups)),
      values(static_cast<std::size_t>(count));
  std::vector<std::uint8_t> zero(scale.size()), codes(values.size());
  const Matrix host = x.on(x.bytes.data());
  ASSERT_EQ(choose_scales(host, {0, rows}, format, scale.data(), zero.data()), Status::ok);
  ASSERT_EQ(quantise(host, {0, rows}, format, scale.data(), zero.data(), rounding, codes_seed,
                     codes.data()),
            Status::ok);
  ASSERT_EQ(dequantise(codes.data(), {0, rows}, columns, format, scale.data(), zero.data(),
                       values.data()),
            Status::ok);

  const DeviceArray<unsigned char> data(x.bytes);
  DeviceArray<float> got_scale(groups), got_values(count);
  DeviceArray<std::uint8_t> got_zero(groups), got_codes(count);
  ASSERT_EQ(
      cuda::choose_scales(x.on(data.data()), format, got_scale.data(), got_zero.data(), nullptr),
      Status::ok);
  ASSERT_EQ(cuda::quantise(x.on(data.data()), format, got_scale.data(), got_zero.data(), rounding,
                           codes_seed, got_codes.data(), nullptr),
            Status::ok);
  ASSERT_EQ(cuda::dequantise(got_codes.data(), rows, columns, format, got_scale.data(),
                             got_zero.data(), got_values.data(), nullptr),
            Status::ok);
  ASSERT_EQ(device_synchronise(), "");
  EXPECT_EQ(got_scale.download(), scale);
  EXPECT_EQ(got_zero.download(), zero);
  EXPECT_EQ(got_codes.download(), codes);
  EXPECT_EQ(got_values.download(), values);
  EXPECT_EQ(got_scale.num_touched() + got_zero.num_touched() + got_codes.num_touched() +
                got_values.num_touched(),
            0);
}

TEST(CudaQuantise, IsTheCpusBitForBit) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 2);
    for (const int bitwidth : {3, 4, 8})
      for (const bool symmetric : {true, false})
        for (const std::int64_t group_size : {0, 32, 100, 128})
          for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
            const auto scale_type = static_cast<Real>(uniform(random, 0, 2));
            check_codes({bitwidth, symmetric, group_size, scale_type}, rounding, random);
          }
  });
}

TEST(CudaQuantise, ActivationsAreRoundedAsOnTheCpu) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 4);
    const std::int64_t rows = 5, columns = 77;
    RandomMatrix x(Real::f32, rows, columns, columns + 2, random);
    const float special[] = {65519.9f, 65520, -1e30f, 1e-7f, 3e-8f, INFINITY, std::nanf("")};
    std::copy(std::begin(special), std::end(special), x.values.begin());
    const DeviceArray<float> data(x.values);
    std::vector<float> divisor;
    for (std::int64_t c = 0; c < columns; ++c)
      divisor.push_back(c < 7 ? 1 : 0.5f + 0.01f * static_cast<float>(uniform(random, 0, 100)));
    const DeviceArray<float> device_divisor(divisor);
    for (const bool divided : {false, true}) {
      std::vector<std::uint16_t> f16, bf16;
      std::vector<std::uint32_t> f32;
      for (std::int64_t i = 0; i < rows * columns; ++i) {
        const float given = x.at(i / columns, i % columns);
        const float value =
            divided ? given / divisor[static_cast<std::size_t>(i % columns)] : given;
        f16.push_back(f32_to_f16(value));
        bf16.push_back(f32_to_bf16(value));
        f32.push_back(std::bit_cast<std::uint32_t>(value));
      }
      const auto round = [&](Real type, void* out) {
        return cuda::round_activations(x.on(data.data()), divided ? device_divisor.data() : nullptr,
                                       type, out, nullptr);
      };
      DeviceArray<std::uint16_t> got_f16(rows * columns), got_bf16(rows * columns);
      DeviceArray<std::uint32_t> got_f32(rows * columns);
      ASSERT_EQ(round(Real::f16, got_f16.data()), Status::ok);
      ASSERT_EQ(round(Real::bf16, got_bf16.data()), Status::ok);
      ASSERT_EQ(round(Real::f32, got_f32.data()), Status::ok);
      ASSERT_EQ(device_synchronise(), "");
      const auto expect_same = [](auto got, auto expected, auto as_float) {
        constexpr std::size_t kNan = 6;  // its bits may differ
        EXPECT_TRUE(std::isnan(as_float(got[kNan])));
        got[kNan] = expected[kNan] = 0;
        EXPECT_EQ(got, expected);
      };
      expect_same(got_f16.download(), f16, f16_to_f32);
      expect_same(got_bf16.download(), bf16, bf16_to_f32);
      expect_same(got_f32.download(), f32,
                  [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
      EXPECT_EQ(got_f16.num_touched() + got_bf16.num_touched() + got_f32.num_touched(), 0);
    }
  });
}

TEST(CudaQuantise, AGroupThatIsNotFiniteGetsAScaleThatIsNot) {
  for_each_device([](const cuda::Device&) {
    std::vector<float> values(64, 1.0f);
    values[40] = std::nanf("");
    const DeviceArray<float> data(values);
    DeviceArray<float> scale(2);
    DeviceArray<std::uint8_t> zero(2);
    ASSERT_EQ(cuda::choose_scales({data.data(), Real::f32, 1, 64, 64}, {4, false, 32, Real::f32},
                                  scale.data(), zero.data(), nullptr),
              Status::ok);
    ASSERT_EQ(device_synchronise(), "");
    EXPECT_FALSE(std::isnan(scale.download()[0]));
    EXPECT_TRUE(std::isnan(scale.download()[1]));
  });
}

TEST(CudaPack, IsTheCpusBitForBit) {
  for_each_device([](const cuda::Device&) {
    std::mt19937_64 random(gpu_seed() + 3);
    for (const int bitwidth : {3, 4, 8})
      for (const std::int64_t columns : {1, 10, 11, 32, 77, 300}) {
        const std::int64_t rows = uniform(random, 1, 5);
        std::vector<std::uint8_t> codes;
        for (std::int64_t i = 0; i < rows * columns; ++i)
          codes.push_back(static_cast<std::uint8_t>(uniform(random, 0, (1 << bitwidth) - 1)));
        std::vector<std::uint8_t> packed(
            static_cast<std::size_t>(rows * packed_row_bytes(columns, bitwidth)));
        ASSERT_EQ(pack(codes.data(), {0, rows}, columns, bitwidth, packed.data()), Status::ok);
        const DeviceArray<std::uint8_t> data(codes);
        DeviceArray<std::uint8_t> got(static_cast<std::int64_t>(packed.size())),
            back(rows * columns);
        ASSERT_EQ(cuda::pack(data.data(), rows, columns, bitwidth, got.data(), nullptr),
                  Status::ok);
        ASSERT_EQ(cuda::unpack(got.data(), rows, columns, bitwidth, back.data(), nullptr),
                  Status::ok);
        ASSERT_EQ(device_synchronise(), "");
        EXPECT_EQ(got.download(), packed);
        EXPECT_EQ(back.download(), codes);
        EXPECT_EQ(got.num_touched() + back.num_touched(), 0);
      }
  });
}

}  // namespace
}  // namespace tessera::kernels::test::reductions_test
