#include "tessera/kernels/gemm_a8.h"

#include <limits>

#include "packed_weights.h"

namespace tessera::kernels::gemm_a8_test {
namespace {

using test::Guarded;
using test::Stored;
using Weights = test::PackedRandomWeights;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// A token as the header says that it is rounded.
struct Rounded {
  Rounded(const Weights& w, const std::vector<float>& x) : value(x.size()), step(x.size()) {
    const auto columns = static_cast<std::int64_t>(x.size());
    const std::int64_t group = w.format.group_size == 0 ? columns : w.format.group_size;
    for (std::int64_t first = 0, last; first < columns; first = last) {
      const std::int64_t group_end = (first / group + 1) * group;
      last = std::min({first + kActivationBlock, group_end, columns});
      float largest = 0;
      for (auto i = first; i < last; ++i) largest = std::max(largest, std::fabs(at(x, i)));
      const float scale = largest == 0 ? 1 : largest / 127;
      for (auto i = first; i < last; ++i) {
        value[static_cast<std::size_t>(i)] = double{scale} * std::nearbyint(at(x, i) / scale);
        step[static_cast<std::size_t>(i)] = double{scale};
      }
    }
  }
  static float at(const std::vector<float>& x, std::int64_t i) {
    return x[static_cast<std::size_t>(i)];
  }
  std::vector<double> value, step;
};

/// Against the product of the rounded activations, and within half a step of each activation
/// against the product of the activations themselves and what dequant_gemm() makes of them.
void check_product(Weights& w, Real type, std::int64_t tokens, std::int64_t gap, std::int64_t off) {
  const std::int64_t stride = w.columns + gap, out_stride = w.rows + gap;
  Stored x(test::normal_values(tokens * stride, 6, 0.3, 1), type, off);
  Guarded<float> out(tokens * out_stride, off), unrounded(tokens * out_stride, off), poison(1);
  const Matrix activations{x.memory.data(), type, tokens, w.columns, stride};
  const std::int64_t half = w.rows / 2 / kRowsPerBlock * kRowsPerBlock;
  for (const Rows slice : {Rows{half, w.rows}, Rows{0, half}}) {
    if (slice.first == slice.last) continue;
    ASSERT_EQ(dequant_gemm_a8(activations, w.packed(), slice, out.data(), out_stride), Status::ok);
    ASSERT_EQ(dequant_gemm(activations, w.packed(), slice, unrounded.data(), out_stride),
              Status::ok);
  }
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float> token;
    for (std::int64_t k = 0; k < w.columns; ++k) token.push_back(x[t * stride + k]);
    const Rounded rounded(w, token);
    for (std::int64_t row = 0; row < out_stride; ++row) {
      const float got = out[t * out_stride + row];
      if (row >= w.rows) {
        ASSERT_EQ(std::memcmp(&out[t * out_stride + row], poison.data(), 4), 0) << "gap written";
        continue;
      }
      double sum = 0, exact = 0, size = 0, half_steps = 0;
      for (std::int64_t k = 0; k < w.columns; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const double weight = w.weight(row, k);
        sum += weight * rounded.value[i];
        exact += weight * double{token[i]};
        size += (std::fabs(weight) + w.largest_term(row, k)) * std::fabs(rounded.value[i]);
        half_steps += std::fabs(weight) * rounded.step[i] / 2;
      }
      ASSERT_NEAR(got, sum, 1e-6 * size) << "row " << row;
      ASSERT_NEAR(got, exact, half_steps + 2e-6 * size) << "row " << row;
      ASSERT_NEAR(got, unrounded[t * out_stride + row], half_steps + 5e-6 * size) << "row " << row;
    }
  }
  ASSERT_EQ(out.num_touched(), 0);
}

TEST(DequantGemmA8, MatchesItsRoundingInEveryFormat) {
  test::for_every_format({0, 5, 32, 48, 64, 128}, {1, 7}, check_product);
}

TEST(DequantGemmA8, MatchesItsRoundingAtOddSizes) {
  test::for_odd_sizes({0, 32, 40}, {1, 2, 3, 4, 5, 7}, check_product);
}

// More tokens and columns than the fast version lays out at a time.
TEST(DequantGemmA8, MatchesItsRoundingAtLargeSizes) {
  test::for_each_isa([](const std::string& isa) {
    if (isa != "avx2") return;  // the others are one loop at any size
    for (const int bitwidth : {3, 4, 8}) {
      Weights wide(17, 66001, {bitwidth, true, 128, Real::f32}, 3);
      check_product(wide, Real::f32, 1, 1, 0);
      Weights deep(32, 2900, {bitwidth, false, 64, Real::f16}, 4);
      check_product(deep, Real::f16, 71, 1, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Saturation would show here: every product has the largest size and the same sign.
TEST(DequantGemmA8, SumsTheLargestProductsExactly) {
  test::for_each_isa([](const std::string&) {
    for (const int bitwidth : {3, 4, 8}) {
      for (const float sign : {1.0f, -1.0f}) {
        const int largest = (1 << bitwidth) - 1;
        constexpr std::int64_t kRows = 16, kColumns = 64;
        const QuantFormat format{bitwidth, false, 32, Real::f32};
        const std::vector<std::uint8_t> codes(kRows * kColumns, static_cast<std::uint8_t>(largest));
        const std::vector<std::uint8_t> zero(kRows * 2, 0);
        const std::vector<float> scale(kRows * 2, 1), x(kColumns, 127 * sign);
        Guarded<unsigned char> data(packed_weights_bytes(kRows, kColumns, format));
        ASSERT_EQ(pack_weights(codes.data(), kRows, kColumns, format, scale.data(), zero.data(),
                               {0, kRows}, data.data()),
                  Status::ok);
        std::vector<float> out(kRows);
        ASSERT_EQ(
            dequant_gemm_a8({x.data(), Real::f32, 1, kColumns, kColumns},
                            {kRows, kColumns, format, data.data()}, {0, kRows}, out.data(), kRows),
            Status::ok);
        for (const float value : out) {
          ASSERT_EQ(value, sign * 127.0f * static_cast<float>(largest * kColumns));
        }
      }
    }
  });
}

// The number that the header gives.
TEST(DequantGemmA8, LosesWhatTheHeaderSays) {
  test::for_each_isa([](const std::string&) {
    Weights w(256, 4096, {4, true, 32, Real::f16}, 7);
    const auto x = test::normal_values(4096 * 8, 8);
    std::vector<float> out(256 * 8);
    ASSERT_EQ(dequant_gemm_a8({x.data(), Real::f32, 8, 4096, 4096}, w.packed(), {0, 256},
                              out.data(), 256),
              Status::ok);
    std::vector<double> exact(out.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (std::size_t k = 0; k < 4096; ++k) {
        exact[i] += w.weight(static_cast<std::int64_t>(i % 256), static_cast<std::int64_t>(k)) *
                    double{x[i / 256 * 4096 + k]};
      }
    }
    const double loss = test::nmse(out, exact);
    ::testing::Test::RecordProperty("nmse", std::to_string(loss * 1e6) + "e-6");
    EXPECT_GT(loss, 2.2e-5);
    EXPECT_LT(loss, 3.6e-5);
  });
}

TEST(DequantGemmA8, KeepsZerosHugeNumbersAndWhatIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    Weights w(17, 96, {4, false, 32, Real::f32}, 9);
    // Tokens: zeros; a block of zeros beside others; huge; NaN; Inf; as the first once more.
    std::vector<float> x = test::normal_values(6 * 96, 10);
    const auto token = [&](std::size_t t) {
      return x.begin() + static_cast<std::ptrdiff_t>(96 * t);
    };
    std::fill_n(token(0), 96, 0.0f);
    std::fill_n(token(1) + 32, 32, 0.0f);
    for (auto i = token(2); i != token(3); ++i) *i *= 1e34f;
    token(3)[40] = kNaN;
    token(4)[95] = -kInf;
    std::fill_n(token(5), 96, 0.0f);
    std::vector<float> out(6 * 17, 1), unrounded(out);
    const Matrix m{x.data(), Real::f32, 6, 96, 96};
    ASSERT_EQ(dequant_gemm_a8(m, w.packed(), {0, 17}, out.data(), 17), Status::ok);
    ASSERT_EQ(dequant_gemm(m, w.packed(), {0, 17}, unrounded.data(), 17), Status::ok);
    for (std::size_t row = 0; row < 17; ++row) {
      EXPECT_EQ(out[row], 0);
      EXPECT_EQ(out[5 * 17 + row], 0);
      EXPECT_TRUE(std::isnan(out[3 * 17 + row])) << row;
      EXPECT_TRUE(std::isnan(out[4 * 17 + row])) << row;
      for (const std::size_t t : {1u, 2u}) {
        double steps = 0;
        const Rounded rounded(w, {token(t), token(t + 1)});
        for (std::size_t k = 0; k < 96; ++k) {
          steps +=
              std::fabs(w.weight(static_cast<std::int64_t>(row), static_cast<std::int64_t>(k)) *
                        rounded.step[k]);
        }
        EXPECT_NEAR(out[t * 17 + row], unrounded[t * 17 + row], steps) << t << " " << row;
      }
    }
  });
}

TEST(DequantGemmA8, RefusesWhatIsWrong) {
  Weights w(32, 64, {4, false, 32, Real::f32}, 5);
  test::expect_refusals(w, dequant_gemm_a8);
}

}  // namespace
}  // namespace tessera::kernels::gemm_a8_test
