#include "tessera/kernels/quantise.h"

#include "support.h"

namespace tessera::kernels::quantise_test {
namespace {

using test::Guarded;
using test::Stored;

constexpr Status kBad = Status::invalid_argument;

struct Quantised {
  std::vector<float> scale;
  std::vector<std::uint8_t> zero_point, codes;
};

Quantised quantise_all(Matrix m, QuantFormat format, Rounding rounding, std::uint64_t seed) {
  const std::int64_t groups = m.rows * num_groups(m.columns, format.group_size);
  Guarded<float> scale(groups);
  Guarded<std::uint8_t> zero_point(groups, 1), codes(m.rows * m.columns, 3);
  // Two slices, since callers share the rows among threads.
  const std::int64_t half = m.rows / 2;
  for (const Rows rows : {Rows{0, half}, Rows{half, m.rows}}) {
    if (rows.first == rows.last) continue;
    EXPECT_EQ(choose_scales(m, rows, format, scale.data(), zero_point.data()), Status::ok);
    EXPECT_EQ(
        quantise(m, rows, format, scale.data(), zero_point.data(), rounding, seed, codes.data()),
        Status::ok);
  }
  EXPECT_EQ(scale.num_touched() + zero_point.num_touched() + codes.num_touched(), 0);
  return {scale.copy(), zero_point.copy(), codes.copy()};
}

std::vector<QuantFormat> formats() {
  std::vector<QuantFormat> all;
  for (const int bitwidth : {3, 4, 8}) {
    for (const bool symmetric : {true, false}) {
      for (const std::int64_t group : {0, 1, 7, 32, 64, 128}) {
        for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
          all.push_back({bitwidth, symmetric, group, type});
        }
      }
    }
  }
  return all;
}

constexpr std::int64_t kRows = 5, kColumns = 203, kStride = 207;

std::string name(QuantFormat f) {
  return std::to_string(f.bitwidth) + (f.symmetric ? " symmetric " : " asymmetric ") +
         std::to_string(f.group_size) + " scales " + std::to_string(static_cast<int>(f.scale_type));
}

// Deterministic rounding is off by half a step at most, and by less than a step when stochastic.
TEST(Quantise, ErrorStaysBelowHalfAStep) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      Stored x(test::normal_values(kRows * kStride, 1, 0.01, 0.05), type, 2);
      const Matrix m{x.memory.data(), type, kRows, kColumns, kStride};
      for (const QuantFormat format : formats()) {
        const Quantised q = quantise_all(m, format, Rounding::nearest, 0);
        Guarded<float> back(kRows * kColumns);
        ASSERT_EQ(dequantise(q.codes.data(), {0, kRows}, kColumns, format, q.scale.data(),
                             q.zero_point.data(), back.data()),
                  Status::ok);
        ASSERT_EQ(back.num_touched(), 0);
        const std::int64_t size = format.group_size == 0 ? kColumns : format.group_size;
        for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
          const std::int64_t row = i / kColumns, column = i % kColumns;
          const auto group = static_cast<std::size_t>(
              row * num_groups(kColumns, format.group_size) + column / size);
          const double value = x[row * kStride + column], scale = q.scale[group];
          ASSERT_LE(std::fabs(back[i] - value), scale / 2 + 2e-7 * std::fabs(value))
              << name(format) << " element " << i;
          ASSERT_GE(q.codes[static_cast<std::size_t>(i)], lowest_code(format));
          ASSERT_LE(q.codes[static_cast<std::size_t>(i)], highest_code(format));
        }
      }
    }
  });
}

// Every version gives the bits that code_of() defines.
TEST(Quantise, CodesAreTheDefinitionBitForBit) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      std::vector<float> values = test::normal_values(kRows * kStride, 2, 0, 3);
      values[3] = NAN, values[20] = INFINITY, values[40] = -INFINITY, values[60] = 1e30f;
      Stored x(values, type, 2);
      const Matrix m{x.memory.data(), type, kRows, kColumns, kStride};
      for (const QuantFormat format : formats()) {
        const std::int64_t groups = num_groups(kColumns, format.group_size);
        const std::int64_t size = format.group_size == 0 ? kColumns : format.group_size;
        std::vector<float> scale(static_cast<std::size_t>(kRows * groups), 0.75f);
        std::vector<std::uint8_t> zero(
            scale.size(), static_cast<std::uint8_t>(symmetric_zero_point(format.bitwidth)));
        for (std::size_t g = 0; g < scale.size(); ++g) {
          scale[g] = 0.013f * static_cast<float>(g % 97 + 1);  // some values clip
          if (!format.symmetric) zero[g] = static_cast<std::uint8_t>(g % (1u << format.bitwidth));
        }
        for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic}) {
          const std::uint64_t seed = test::seed() << 20;
          Guarded<std::uint8_t> codes(kRows * kColumns, 1);
          ASSERT_EQ(quantise(m, {0, kRows}, format, scale.data(), zero.data(), rounding, seed,
                             codes.data()),
                    Status::ok);
          ASSERT_EQ(codes.num_touched(), 0);
          for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
            const std::int64_t row = i / kColumns, column = i % kColumns;
            const auto g = static_cast<std::size_t>(row * groups + column / size);
            const float u = stochastic_uniform(seed, static_cast<std::uint64_t>(i));
            ASSERT_EQ(codes[i],
                      code_of(x[row * kStride + column], scale[g], zero[g], format, rounding, u))
                << name(format) << " element " << i;
          }
        }
      }
    }
  });
}

// A value a quarter above a step goes up in a quarter of the draws, each with its own index or
// seed.
TEST(Quantise, StochasticRoundingIsUnbiased) {
  test::for_each_isa([](const std::string&) {
    constexpr std::int64_t kDraws = 100000;
    for (const float fraction : {0.0f, 0.1f, 0.25f, 0.5f, 0.9f}) {
      for (const float step : {-5.0f, 0.0f, 3.0f}) {
        const std::vector<float> x(kDraws, (step + fraction) * 0.5f);
        const QuantFormat format{4, true, 0, Real::f32};
        const float scale = 0.5f;
        std::vector<std::uint8_t> codes(kDraws);
        ASSERT_EQ(quantise({x.data(), Real::f32, 1, kDraws, kDraws}, {0, 1}, format, &scale,
                           nullptr, Rounding::stochastic, test::seed(), codes.data()),
                  Status::ok);
        double sum = 0;
        for (const auto code : codes) sum += code - 8;
        const double p = (x[0] / 0.5f) - std::floor(x[0] / 0.5f);
        EXPECT_NEAR(sum / kDraws, x[0] / 0.5, 4 * std::sqrt(p * (1 - p) / kDraws) + 1e-12);
      }
    }
  });
}

TEST(ChooseScales, FollowTheirFormulas) {
  test::for_each_isa([](const std::string&) {
    const float row[] = {-3, 1, 6, 0.5f, 2, 4, 0, 0};
    const Matrix m{row, Real::f32, 1, 8, 8};
    float scale[4];
    std::uint8_t zero[4];
    ASSERT_EQ(choose_scales(m, {0, 1}, {4, true, 0, Real::f32}, scale, zero), Status::ok);
    EXPECT_GE(scale[0], 6.0 / 7);
    EXPECT_FLOAT_EQ(scale[0], 6.0f / 7);
    EXPECT_EQ(zero[0], 8);
    ASSERT_EQ(choose_scales(m, {0, 1}, {4, false, 2, Real::f32}, scale, zero), Status::ok);
    EXPECT_FLOAT_EQ(scale[0], 4.0f / 15);
    EXPECT_EQ(zero[0], 11);  // 3 / (4/15) = 11.25
    EXPECT_FLOAT_EQ(scale[1], 6.0f / 15);
    EXPECT_EQ(zero[1], 0);  // widened to hold zero
    EXPECT_FLOAT_EQ(scale[2], 4.0f / 15);
    EXPECT_EQ(scale[3], 1);  // all zero
    EXPECT_EQ(zero[3], 0);
    ASSERT_EQ(choose_scales(m, {0, 1}, {3, true, 2, Real::f32}, scale, zero), Status::ok);
    EXPECT_EQ(scale[3], 1);
    EXPECT_EQ(zero[3], 4);
  });
}

TEST(ChooseScales, RoundUpToTheirType) {
  test::for_each_isa([](const std::string&) {
    Stored x(test::normal_values(1000 * 8, 3), Real::f32);
    const Matrix m{x.memory.data(), Real::f32, 1000, 8, 8};
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      std::vector<float> scale(1000);
      std::vector<std::uint8_t> zero(1000);
      ASSERT_EQ(choose_scales(m, {0, 1000}, {4, true, 0, type}, scale.data(), zero.data()),
                Status::ok);
      const double unit = type == Real::f32 ? 0x1p-23 : type == Real::f16 ? 0x1p-10 : 0x1p-7;
      for (std::int64_t row = 0; row < 1000; ++row) {
        double largest = 0;
        for (int i = 0; i < 8; ++i) largest = std::max(largest, std::fabs(double{x[row * 8 + i]}));
        const double s = scale[static_cast<std::size_t>(row)];
        ASSERT_GE(s, largest / 7);
        ASSERT_LE(s, largest / 7 * (1 + unit));
        const float f = static_cast<float>(s);
        if (type == Real::f16) {
          ASSERT_EQ(f16_to_f32(f32_to_f16(f)), f);
        }
        if (type == Real::bf16) {
          ASSERT_EQ(bf16_to_f32(f32_to_bf16(f)), f);
        }
      }
    }
  });
}

// What is not finite shows up in the scale; its neighbours keep theirs.
TEST(ChooseScales, DoNotHideWhatIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      for (const std::size_t at : {0u, 5u, 31u}) {
        std::vector<float> values = test::normal_values(96, 4);
        values[32 + at] = bad;
        float scale[3];
        std::uint8_t zero[3];
        ASSERT_EQ(choose_scales({values.data(), Real::f32, 1, 96, 96}, {0, 1},
                                {4, false, 32, Real::f32}, scale, zero),
                  Status::ok);
        EXPECT_TRUE(std::isfinite(scale[0]) && std::isnan(scale[1]) && std::isfinite(scale[2]));
      }
    }
  });
}

TEST(ScaleOfRange, IsTheScaleOfATensor) {
  float scale = 0;
  std::uint8_t zero = 0;
  ASSERT_EQ(scale_of_range(-2, 6, {8, false, 0, Real::f32}, &scale, &zero), Status::ok);
  EXPECT_FLOAT_EQ(scale, 8.0f / 255);
  EXPECT_EQ(zero, 64);
  ASSERT_EQ(scale_of_range(-3e38, 3e38, {3, false, 0, Real::f32}, &scale, &zero), Status::ok);
  EXPECT_TRUE(std::isfinite(scale));
  ASSERT_EQ(scale_of_range(0, 1e9, {4, true, 0, Real::f16}, &scale, &zero), Status::ok);
  EXPECT_TRUE(std::isinf(scale));
  ASSERT_EQ(scale_of_range(INFINITY, -INFINITY, {4, true, 0, Real::f32}, &scale, &zero),
            Status::ok);
  EXPECT_TRUE(std::isnan(scale));
  EXPECT_EQ(scale_of_range(0, 1, {5, true, 0, Real::f32}, &scale, &zero), kBad);
  EXPECT_EQ(scale_of_range(0, 1, {4, true, 0, Real::f32}, nullptr, &zero), kBad);
  EXPECT_EQ(scale_of_range(0, 1, {4, true, 0, Real::f32}, &scale, nullptr), kBad);
}

TEST(Quantise, RefusesWhatIsWrong) {
  float x[4] = {}, scale[4] = {1, 1, 1, 1}, out[4];
  std::uint8_t zero[4] = {}, codes[4] = {};
  const Matrix m{x, Real::f32, 2, 2, 2};
  const QuantFormat good{4, false, 0, Real::f32};
  const auto q = [&](Matrix matrix, Rows rows, QuantFormat format, const float* s,
                     const std::uint8_t* z, std::uint8_t* c) {
    return quantise(matrix, rows, format, s, z, Rounding::nearest, 0, c);
  };
  EXPECT_EQ(q({nullptr, Real::f32, 2, 2, 2}, {0, 2}, good, scale, zero, codes), kBad);
  EXPECT_EQ(q({x, Real::f32, 2, -2, 2}, {0, 2}, good, scale, zero, codes), kBad);
  EXPECT_EQ(q(m, {0, 3}, good, scale, zero, codes), kBad);
  EXPECT_EQ(q(m, {2, 2}, good, scale, zero, codes), kBad);
  EXPECT_EQ(q(m, {0, 2}, {5, true, 0, Real::f32}, scale, zero, codes), kBad);
  EXPECT_EQ(q(m, {0, 2}, {4, true, -1, Real::f32}, scale, zero, codes), kBad);
  EXPECT_EQ(q(m, {0, 2}, good, nullptr, zero, codes), kBad);
  EXPECT_EQ(q(m, {0, 2}, good, scale, nullptr, codes), kBad);
  EXPECT_EQ(q(m, {0, 2}, good, scale, zero, nullptr), kBad);
  EXPECT_EQ(q(m, {0, 2}, {4, true, 0, Real::f32}, scale, nullptr, codes), Status::ok);
  EXPECT_EQ(quantise(m, {0, 2}, good, scale, zero, static_cast<Rounding>(7), 0, codes), kBad);
  EXPECT_EQ(choose_scales(m, {0, 2}, good, nullptr, zero), kBad);
  EXPECT_EQ(choose_scales(m, {0, 2}, good, scale, nullptr), kBad);
  EXPECT_EQ(choose_scales(m, {0, 0}, good, scale, zero), kBad);
  EXPECT_EQ(dequantise(nullptr, {0, 2}, 2, good, scale, zero, out), kBad);
  EXPECT_EQ(dequantise(codes, {0, 2}, 0, good, scale, zero, out), kBad);
  EXPECT_EQ(dequantise(codes, {1, 1}, 2, good, scale, zero, out), kBad);
  EXPECT_EQ(dequantise(codes, {0, 2}, 2, good, scale, nullptr, out), kBad);
  EXPECT_EQ(dequantise(codes, {0, 2}, 2, good, scale, zero, nullptr), kBad);
}

}  // namespace
}  // namespace tessera::kernels::quantise_test
