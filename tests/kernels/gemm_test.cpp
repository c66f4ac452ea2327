#include "tessera/kernels/gemm.h"

#include "packed_weights.h"

namespace tessera::kernels::gemm_test {
namespace {

using test::Guarded;
using test::Stored;

constexpr Status kBad = Status::invalid_argument;

using Weights = test::PackedRandomWeights;

/// The product against double; `gap` elements between the rows of activations and outputs.
void check_product(Weights& w, Real type, std::int64_t tokens, std::int64_t gap, std::int64_t off) {
  const std::int64_t stride = w.columns + gap, out_stride = w.rows + gap;
  Stored x(test::normal_values(tokens * stride, 5, 0.3, 1), type, off);
  Guarded<float> out(tokens * out_stride, off);
  const Matrix activations{x.memory.data(), type, tokens, w.columns, stride};
  const std::int64_t half = w.rows / 2 / kRowsPerBlock * kRowsPerBlock;
  for (const Rows slice : {Rows{half, w.rows}, Rows{0, half}}) {
    if (slice.first == slice.last) continue;
    ASSERT_EQ(dequant_gemm(activations, w.packed(), slice, out.data(), out_stride), Status::ok);
  }
  Guarded<float> poison(1);
  std::vector<float> got;
  std::vector<double> expected;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double largest = 0;
    for (std::int64_t k = 0; k < w.columns; ++k) {
      largest = std::max(largest, std::fabs(double{x[t * stride + k]}));
    }
    for (std::int64_t row = 0; row < out_stride; ++row) {
      if (row >= w.rows) {
        ASSERT_EQ(std::memcmp(&out[t * out_stride + row], poison.data(), 4), 0) << "gap written";
        continue;
      }
      double sum = 0, size = 0, rounding = 0;  // rounding: what fixed-point numbers are off
      for (std::int64_t k = 0; k < w.columns; ++k) {
        const double product = w.weight(row, k) * x[t * stride + k];
        sum += product;
        size += std::fabs(product) + std::fabs(w.largest_term(row, k) * x[t * stride + k]);
        rounding += std::fabs(w.weight(row, k)) * largest * 0x1p-22;
      }
      ASSERT_NEAR(out[t * out_stride + row], sum, 1e-6 * size + rounding) << "row " << row;
      expected.push_back(sum);
      got.push_back(out[t * out_stride + row]);
    }
  }
  ASSERT_EQ(out.num_touched(), 0);
  if (got.size() < 16) return;  // a single sum may happen to be almost zero
  ASSERT_LE(test::nmse(got, expected), 1e-11)
      << w.format.bitwidth << " bits, symmetric " << w.format.symmetric << ", group "
      << w.format.group_size << ", " << w.rows << "x" << w.columns << ", tokens " << tokens;
}

TEST(DequantGemm, MatchesDoubleInEveryFormat) {
  test::for_every_format({0, 5, 32, 64, 128}, {1, 9}, check_product);
}

TEST(DequantGemm, MatchesDoubleAtOddSizes) {
  test::for_odd_sizes({0, 32}, {1, 2, 3, 4, 5, 7, 13}, check_product);
}

// Longer than the strips of columns and the panels of tokens that the fast versions cut.
TEST(DequantGemm, MatchesDoubleAtLargeSizes) {
  test::for_each_isa([](const std::string& isa) {
    if (isa == "scalar") return;  // it is the same loop at any size
    for (const int bitwidth : {3, 4, 8}) {
      Weights wide(17, 9001, {bitwidth, false, 128, Real::f32}, 3);
      for (const std::int64_t tokens : {1, 3, 6}) check_product(wide, Real::bf16, tokens, 1, 2);
      Weights deep(32, 777, {bitwidth, true, 64, Real::f16}, 4);
      check_product(deep, Real::f16, 301, 1, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(PackedWeights, NeedTheBytesThatTheirLayoutSays) {
  // Two blocks of 16 rows: 4 bits, 64 columns, two scales of 2 bytes a row.
  EXPECT_EQ(packed_weights_bytes(32, 64, {4, true, 32, Real::f16}), 32 * 32 + 32 * 2 * 2);
  EXPECT_EQ(packed_weights_bytes(32, 64, {3, true, 32, Real::f16}), 32 * 24 + 32 * 2 * 2);
  EXPECT_EQ(packed_weights_bytes(32, 64, {8, false, 0, Real::f32}), 32 * 64 + 32 * 4 + 64);
  EXPECT_EQ(packed_weights_bytes(1, 1, {4, true, 0, Real::f32}), 64 + 64);
  EXPECT_EQ(packed_weights_bytes(0, 64, {4, true, 32, Real::f16}), 0);
  EXPECT_EQ(packed_weights_bytes(32, -1, {4, true, 32, Real::f16}), 0);
  EXPECT_EQ(packed_weights_bytes(32, 64, {2, true, 32, Real::f16}), 0);
  EXPECT_EQ(packed_weights_bytes(INT64_MAX, INT64_MAX, {4, true, 32, Real::f16}), 0);
}

TEST(DequantGemm, RefusesWhatIsWrong) {
  Weights w(32, 64, {4, false, 32, Real::f32}, 5);
  test::expect_refusals(w, dequant_gemm);

  const auto pack = [&](const std::uint8_t* codes, const float* scale, const std::uint8_t* zero,
                        Rows rows, void* to) {
    return pack_weights(codes, 32, 64, w.format, scale, zero, rows, to);
  };
  const std::uint8_t* zero = w.zero_point.data();
  EXPECT_EQ(pack(nullptr, w.scale.data(), zero, {0, 32}, w.data.data()), kBad);
  EXPECT_EQ(pack(w.codes.data(), nullptr, zero, {0, 32}, w.data.data()), kBad);
  EXPECT_EQ(pack(w.codes.data(), w.scale.data(), nullptr, {0, 32}, w.data.data()), kBad);
  EXPECT_EQ(pack(w.codes.data(), w.scale.data(), zero, {0, 31}, w.data.data()), kBad);
  EXPECT_EQ(pack(w.codes.data(), w.scale.data(), zero, {0, 32}, nullptr), kBad);
  EXPECT_EQ(pack(w.codes.data(), w.scale.data(), zero, {0, 32}, w.data.data() + 8), kBad);
}

}  // namespace
}  // namespace tessera::kernels::gemm_test
