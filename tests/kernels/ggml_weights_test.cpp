#include "tessera/kernels/ggml_weights.h"

#include <limits>

#include "ggml_blocks.h"

namespace tessera::kernels::ggml_weights_test {
namespace {

using test::Guarded;
using test::Stored;
using Weights = test::RandomGgmlWeights;

constexpr Status kBad = Status::invalid_argument;

/// Columns that share a scale when ggml_gemm_a8() rounds the activations.
std::int64_t rounded_columns(GgmlType type) { return ggml_group_columns(type); }

/// A token as the header says that it is rounded.
std::vector<double> rounded(const std::vector<float>& x, std::int64_t block) {
  std::vector<double> result;
  for (std::size_t first = 0; first < x.size(); first += static_cast<std::size_t>(block)) {
    float largest = 0;
    const std::size_t last = first + static_cast<std::size_t>(block);
    for (std::size_t i = first; i < last; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float scale = largest == 0 ? 1 : largest / 127;
    for (std::size_t i = first; i < last; ++i) {
      result.push_back(double{scale} * std::nearbyint(x[i] / scale));
    }
  }
  return result;
}

/// Both products against double; `gap` elements between the rows of activations and outputs.
void check_product(Weights& w, Real type, std::int64_t tokens, std::int64_t gap) {
  SCOPED_TRACE("type " + std::to_string(static_cast<int>(w.type)) + ", " + std::to_string(w.rows) +
               "x" + std::to_string(w.columns) + ", tokens " + std::to_string(tokens));
  const std::int64_t stride = w.columns + gap, out_stride = w.rows + gap;
  Stored x(test::normal_values(tokens * stride, 5, 0.3, 1), type, gap);
  Guarded<float> out(tokens * out_stride, gap), out_a8(tokens * out_stride, gap), poison(1);
  const Matrix activations{x.memory.data(), type, tokens, w.columns, stride};
  const std::int64_t half = w.rows / 2 / kRowsPerBlock * kRowsPerBlock;
  for (const Rows slice : {Rows{half, w.rows}, Rows{0, half}}) {
    if (slice.first == slice.last) continue;
    ASSERT_EQ(ggml_gemm(activations, w.packed(), slice, out.data(), out_stride), Status::ok);
    ASSERT_EQ(ggml_gemm_a8(activations, w.packed(), slice, out_a8.data(), out_stride), Status::ok);
  }
  std::vector<test::GgmlElement> elements;
  for (std::int64_t row = 0; row < w.rows; ++row) {
    for (std::int64_t k = 0; k < w.columns; ++k) elements.push_back(w.element(row, k));
  }
  std::vector<float> got;
  std::vector<double> expected;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float> token;
    for (std::int64_t k = 0; k < w.columns; ++k) token.push_back(x[t * stride + k]);
    double largest_of_token = 0;
    for (const float value : token) {
      largest_of_token = std::max(largest_of_token, std::fabs(double{value}));
    }
    const std::vector<double> token_a8 = rounded(token, rounded_columns(w.type));
    for (std::int64_t row = 0; row < out_stride; ++row) {
      const std::int64_t at = t * out_stride + row;
      if (row >= w.rows) {
        ASSERT_EQ(std::memcmp(&out[at], poison.data(), 4), 0) << "gap written";
        ASSERT_EQ(std::memcmp(&out_a8[at], poison.data(), 4), 0) << "gap written";
        continue;
      }
      double sum = 0, size = 0, sum_a8 = 0, size_a8 = 0;
      double rounding = 0;  // what fixed-point numbers are off
      for (std::int64_t k = 0; k < w.columns; ++k) {
        const auto i = static_cast<std::size_t>(k);
        const test::GgmlElement& e = elements[static_cast<std::size_t>(row * w.columns + k)];
        const double weight = e.product + e.added;
        const double largest = std::fabs(e.product) + std::fabs(e.added) + e.largest_term;
        sum += weight * double{token[i]};
        size += largest * std::fabs(double{token[i]});
        rounding += std::fabs(weight) * largest_of_token * 0x1p-22;
        sum_a8 += weight * token_a8[i];
        size_a8 += largest * std::fabs(token_a8[i]);
      }
      ASSERT_NEAR(out[at], sum, 1e-6 * size + rounding) << "row " << row;
      ASSERT_NEAR(out_a8[at], sum_a8, 1e-6 * size_a8) << "row " << row;
      got.push_back(out[at]);
      expected.push_back(sum);
    }
  }
  ASSERT_EQ(out.num_touched() + out_a8.num_touched(), 0);
  if (got.size() < 16) return;  // a single sum may happen to be almost zero
  ASSERT_LE(test::nmse(got, expected), 1e-11);
}

TEST(GgmlGemm, MatchesDoubleForEveryType) {
  test::for_each_isa([](const std::string&) {
    for (const GgmlType ggml : test::ggml_types()) {
      Weights w(48, 512, ggml, 1);
      for (const Real type : {Real::f32, Real::f16, Real::bf16}) check_product(w, type, 3, 0);
      for (const std::int64_t tokens : {1, 9, 64}) check_product(w, Real::f32, tokens, 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(GgmlGemm, MatchesDoubleAtOddSizes) {
  test::for_each_isa([](const std::string&) {
    for (const GgmlType ggml : test::ggml_types()) {
      for (const std::int64_t rows : {1, 15, 17, 70}) {
        for (const std::int64_t blocks : {1, 3}) {
          Weights w(rows, blocks * ggml_block_columns(ggml), ggml, 2);
          for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9}) {
            check_product(w, Real::f32, tokens, 3);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Longer than the strips of columns and the panels of tokens that the fast versions cut.
TEST(GgmlGemm, MatchesDoubleAtLargeSizes) {
  test::for_each_isa([](const std::string& isa) {
    if (isa == "scalar") return;  // it is the same loop at any size
    for (const GgmlType ggml : {GgmlType::q4_1, GgmlType::q8_0, GgmlType::q6_k}) {
      Weights wide(17, 9216, ggml, 3);
      for (const std::int64_t tokens : {1, 3, 9}) check_product(wide, Real::bf16, tokens, 1);
      Weights deep(33, 768, ggml, 4);
      check_product(deep, Real::f16, 130, 1);
      check_product(deep, Real::f32, 301, 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(GgmlGemm, PropagatesWhatIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    for (const GgmlType ggml : test::ggml_types()) {
      Weights w(17, 512, ggml, 6);
      for (const std::int64_t tokens : {3, 40}) {
        std::vector<float> x = test::normal_values(tokens * 512, 7);
        x[70] = std::numeric_limits<float>::quiet_NaN();
        x[2 * 512 + 400] = -std::numeric_limits<float>::infinity();
        std::vector<float> out(static_cast<std::size_t>(tokens) * 17), out_a8(out);
        const Matrix m{x.data(), Real::f32, tokens, 512, 512};
        ASSERT_EQ(ggml_gemm(m, w.packed(), {0, 17}, out.data(), 17), Status::ok);
        ASSERT_EQ(ggml_gemm_a8(m, w.packed(), {0, 17}, out_a8.data(), 17), Status::ok);
        for (std::size_t row = 0; row < 17; ++row) {
          EXPECT_TRUE(std::isnan(out[row]));
          EXPECT_TRUE(std::isfinite(out[17 + row]));
          EXPECT_TRUE(!std::isfinite(out[34 + row]) || w.weight(static_cast<int>(row), 400) == 0);
          EXPECT_TRUE(std::isnan(out_a8[row]));
          EXPECT_TRUE(std::isfinite(out_a8[17 + row]));
          EXPECT_TRUE(std::isnan(out_a8[34 + row]));
        }
      }
    }
  });
}

TEST(GgmlWeights, NeedTheBytesThatTheirLayoutSays) {
  EXPECT_EQ(ggml_weights_bytes(32, 64, GgmlType::q4_0), 32 * 32 + 32 * 2 * 2);
  EXPECT_EQ(ggml_weights_bytes(32, 64, GgmlType::q4_1), 32 * 32 + 2 * 32 * 2 * 2);
  EXPECT_EQ(ggml_weights_bytes(17, 64, GgmlType::q8_0), 32 * 64 + 32 * 2 * 2);
  EXPECT_EQ(ggml_weights_bytes(16, 256, GgmlType::q6_k), 16 * 256 + 16 * 16 * 4);
  EXPECT_EQ(ggml_weights_bytes(16, 48, GgmlType::q4_0), 0);
  EXPECT_EQ(ggml_weights_bytes(16, 128, GgmlType::q4_k), 0);
  EXPECT_EQ(ggml_weights_bytes(0, 256, GgmlType::q4_k), 0);
  EXPECT_EQ(ggml_weights_bytes(INT64_MAX, 256, GgmlType::q4_k), 0);
  EXPECT_EQ(ggml_weights_bytes(16, 256, static_cast<GgmlType>(99)), 0);
  EXPECT_EQ(ggml_block_bytes(static_cast<GgmlType>(99)), 0);
  EXPECT_EQ(ggml_block_columns(static_cast<GgmlType>(-1)), 0);
}

TEST(GgmlWeights, RefuseWhatIsWrong) {
  Weights w(32, 256, GgmlType::q4_k, 8);
  std::vector<const void*> rows(32, w.blocks.data());
  const auto pack = [&](const void* const* from, std::int64_t columns, GgmlType type, Rows slice,
                        void* to) { return pack_ggml_weights(from, 32, columns, type, slice, to); };
  unsigned char* data = w.data.data();
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 32}, data), Status::ok);
  EXPECT_EQ(pack(nullptr, 256, w.type, {0, 32}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 255, w.type, {0, 32}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 256, static_cast<GgmlType>(99), {0, 32}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 31}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 256, w.type, {8, 32}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 32}, data + 32), kBad);
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 32}, nullptr), kBad);
  rows[20] = nullptr;
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 32}, data), kBad);
  EXPECT_EQ(pack(rows.data(), 256, w.type, {0, 16}, data), Status::ok);

  const std::vector<float> x(256 * 2);
  std::vector<float> out(64);
  const Matrix m{x.data(), Real::f32, 2, 256, 256};
  for (const auto gemm : {ggml_gemm, ggml_gemm_a8}) {
    const auto refuses = [&](Matrix activations, GgmlWeights weights, Rows slice, float* to,
                             std::int64_t stride) {
      return gemm(activations, weights, slice, to, stride) == kBad;
    };
    const Rows all{0, 32};
    EXPECT_FALSE(refuses(m, w.packed(), all, out.data(), 32));
    EXPECT_TRUE(refuses({nullptr, Real::f32, 2, 256, 256}, w.packed(), all, out.data(), 32));
    EXPECT_TRUE(refuses({x.data(), Real::f32, 2, 128, 256}, w.packed(), all, out.data(), 32));
    EXPECT_TRUE(refuses({x.data(), Real::f32, 0, 256, 256}, w.packed(), all, out.data(), 32));
    EXPECT_TRUE(refuses(m, {32, 256, w.type, nullptr}, all, out.data(), 32));
    EXPECT_TRUE(refuses(m, {32, 256, w.type, data + 4}, all, out.data(), 32));
    EXPECT_TRUE(refuses(m, {-32, 256, w.type, data}, all, out.data(), 32));
    EXPECT_TRUE(
        refuses(m, {32, 256, static_cast<GgmlType>(kNumGgmlTypes), data}, all, out.data(), 32));
    EXPECT_TRUE(refuses(m, w.packed(), {0, 33}, out.data(), 32));
    EXPECT_TRUE(refuses(m, w.packed(), {8, 32}, out.data(), 32));
    EXPECT_TRUE(refuses(m, w.packed(), {16, 16}, out.data(), 32));
    EXPECT_TRUE(refuses(m, w.packed(), all, nullptr, 32));
    EXPECT_TRUE(refuses(m, w.packed(), all, out.data(), 31));
  }
}

}  // namespace
}  // namespace tessera::kernels::ggml_weights_test
