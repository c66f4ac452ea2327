#include "tessera/kernels/dense.h"

#include <limits>

#include "support.h"

namespace tessera::kernels::dense_test {
namespace {

using test::Guarded;
using test::Stored;

constexpr Status kBad = Status::invalid_argument;
constexpr Real kReals[] = {Real::f32, Real::f16, Real::bf16};

/// Random weights, packed as `type` in two slices.
struct Weights {
  Weights(std::int64_t num_rows, std::int64_t num_columns, Real real, std::uint64_t stream)
      : rows(num_rows),
        columns(num_columns),
        type(real),
        values(test::normal_values(rows * (columns + 1), stream), type),
        data(dense_weights_bytes(rows, columns, type)) {
    const Matrix m{values.memory.data(), type, rows, columns, columns + 1};
    const std::int64_t half = rows / 2 / kRowsPerBlock * kRowsPerBlock;
    for (const Rows slice : {Rows{0, half}, Rows{half, rows}}) {
      if (slice.first == slice.last) continue;
      EXPECT_EQ(pack_dense_weights(m, type, slice, data.data()), Status::ok);
    }
    EXPECT_EQ(data.num_touched(), 0);
  }
  DenseWeights packed() { return {rows, columns, type, data.data()}; }

  std::int64_t rows, columns;
  Real type;
  Stored values;
  Guarded<unsigned char> data;
};

void check_product(Weights& w, Real type, std::int64_t tokens, std::int64_t gap) {
  SCOPED_TRACE("weights " + std::to_string(static_cast<int>(w.type)) + ", " +
               std::to_string(w.rows) + "x" + std::to_string(w.columns) + ", tokens " +
               std::to_string(tokens));
  const std::int64_t stride = w.columns + gap, out_stride = w.rows + gap;
  Stored x(test::normal_values(tokens * stride, 5, 0.3, 1), type, gap);
  Guarded<float> out(tokens * out_stride, gap), poison(1);
  const Matrix activations{x.memory.data(), type, tokens, w.columns, stride};
  const std::int64_t half = w.rows / 2 / kRowsPerBlock * kRowsPerBlock;
  for (const Rows slice : {Rows{half, w.rows}, Rows{0, half}}) {
    if (slice.first == slice.last) continue;
    ASSERT_EQ(dense_gemm(activations, w.packed(), slice, out.data(), out_stride), Status::ok);
  }
  std::vector<float> got;
  std::vector<double> expected;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t row = 0; row < out_stride; ++row) {
      if (row >= w.rows) {
        ASSERT_EQ(std::memcmp(&out[t * out_stride + row], poison.data(), 4), 0) << "gap written";
        continue;
      }
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < w.columns; ++k) {
        const double product = double{w.values[row * (w.columns + 1) + k]} * x[t * stride + k];
        sum += product;
        size += std::fabs(product);
      }
      ASSERT_NEAR(out[t * out_stride + row], sum, 1e-6 * size) << "row " << row;
      expected.push_back(sum);
      got.push_back(out[t * out_stride + row]);
    }
  }
  ASSERT_EQ(out.num_touched(), 0);
  if (got.size() < 16) return;  // a single sum may happen to be almost zero
  ASSERT_LE(test::nmse(got, expected), 1e-11);
}

TEST(DenseGemm, MatchesDoubleForEveryType) {
  test::for_each_isa([](const std::string&) {
    for (const Real weights : kReals) {
      for (const std::int64_t rows : {1, 15, 16, 17, 70}) {
        for (const std::int64_t columns : {1, 3, 33, 100, 517}) {
          Weights w(rows, columns, weights, 1);
          for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
            check_product(w, kReals[tokens % 3], tokens, tokens % 2 * 3);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Longer than the strips of columns and the panels of tokens that the fast versions cut.
TEST(DenseGemm, MatchesDoubleAtLargeSizes) {
  test::for_each_isa([](const std::string& isa) {
    if (isa == "scalar") return;  // it is the same loop at any size
    for (const Real weights : kReals) {
      Weights wide(17, 9001, weights, 2);
      for (const std::int64_t tokens : {1, 3, 9}) check_product(wide, Real::bf16, tokens, 1);
      Weights deep(50, 777, weights, 3);
      check_product(deep, Real::f32, 130, 1);
      check_product(deep, Real::f16, 301, 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(DenseGemm, PropagatesWhatIsNotFinite) {
  test::for_each_isa([](const std::string&) {
    for (const Real weights : kReals) {
      Weights w(17, 70, weights, 4);
      for (const std::int64_t tokens : {3, 40}) {
        std::vector<float> x = test::normal_values(tokens * 70, 5);
        x[33] = std::numeric_limits<float>::quiet_NaN();
        x[2 * 70 + 69] = -std::numeric_limits<float>::infinity();
        std::vector<float> out(static_cast<std::size_t>(tokens) * 17);
        const Matrix m{x.data(), Real::f32, tokens, 70, 70};
        ASSERT_EQ(dense_gemm(m, w.packed(), {0, 17}, out.data(), 17), Status::ok);
        for (std::int64_t row = 0; row < 17; ++row) {
          const auto at = static_cast<std::size_t>(row);
          EXPECT_TRUE(std::isnan(out[at]));
          EXPECT_TRUE(std::isfinite(out[17 + at]));
          EXPECT_TRUE(std::isinf(out[34 + at]));
          EXPECT_EQ(out[34 + at] > 0, w.values[row * 71 + 69] < 0);
        }
      }
    }
  });
}

TEST(DenseWeights, AreConvertedToNearest) {
  const std::vector<float> values = {1.0f, 1.0f + 0x1p-9f, -3.14159f, 1e-8f};
  for (const Real type : kReals) {
    Guarded<unsigned char> data(dense_weights_bytes(2, 2, type));
    ASSERT_EQ(pack_dense_weights({values.data(), Real::f32, 2, 2, 2}, type, {0, 2}, data.data()),
              Status::ok);
    ASSERT_EQ(data.num_touched(), 0);
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 2; ++column) {
        const float value = row < 2 ? values[static_cast<std::size_t>(row * 2 + column)] : 0;
        const int at = column * 16 + row;
        if (type == Real::f32) {
          float got;
          std::memcpy(&got, data.data() + 4 * at, 4);
          EXPECT_EQ(got, value);
          continue;
        }
        std::uint16_t bits;
        std::memcpy(&bits, data.data() + 2 * at, 2);
        EXPECT_EQ(bits, type == Real::f16 ? f32_to_f16(value) : f32_to_bf16(value));
      }
    }
  }
}

TEST(DenseWeights, NeedTheBytesThatTheirLayoutSays) {
  EXPECT_EQ(dense_weights_bytes(17, 5, Real::f32), 32 * 5 * 4);
  EXPECT_EQ(dense_weights_bytes(16, 5, Real::bf16), 16 * 5 * 2);
  EXPECT_EQ(dense_weights_bytes(0, 5, Real::f32), 0);
  EXPECT_EQ(dense_weights_bytes(16, -5, Real::f32), 0);
  EXPECT_EQ(dense_weights_bytes(16, 5, static_cast<Real>(9)), 0);
  EXPECT_EQ(dense_weights_bytes(INT64_MAX, INT64_MAX, Real::f32), 0);
}

TEST(DenseWeights, RefuseWhatIsWrong) {
  Weights w(32, 64, Real::f16, 6);
  unsigned char* data = w.data.data();
  const Matrix from{w.values.memory.data(), Real::f16, 32, 64, 65};
  EXPECT_EQ(pack_dense_weights(from, Real::f16, {0, 32}, data), Status::ok);
  EXPECT_EQ(pack_dense_weights({nullptr, Real::f16, 32, 64, 65}, Real::f16, {0, 32}, data), kBad);
  EXPECT_EQ(pack_dense_weights(from, static_cast<Real>(3), {0, 32}, data), kBad);
  EXPECT_EQ(pack_dense_weights(from, Real::f16, {0, 31}, data), kBad);
  EXPECT_EQ(pack_dense_weights(from, Real::f16, {8, 32}, data), kBad);
  EXPECT_EQ(pack_dense_weights(from, Real::f16, {0, 32}, nullptr), kBad);
  EXPECT_EQ(pack_dense_weights(from, Real::f16, {0, 32}, data + 2), kBad);

  const std::vector<float> x(64 * 2);
  std::vector<float> out(64);
  const Matrix m{x.data(), Real::f32, 2, 64, 64};
  const Rows all{0, 32};
  EXPECT_EQ(dense_gemm(m, w.packed(), all, out.data(), 32), Status::ok);
  EXPECT_EQ(dense_gemm({nullptr, Real::f32, 2, 64, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm({x.data(), Real::f32, 2, 63, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm({x.data(), Real::f32, 0, 64, 64}, w.packed(), all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm(m, {32, 64, Real::f16, nullptr}, all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm(m, {32, 64, Real::f16, data + 4}, all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm(m, {32, 64, static_cast<Real>(3), data}, all, out.data(), 32), kBad);
  EXPECT_EQ(dense_gemm(m, {-32, 64, Real::f16, data}, all, out.data(), 32), kBad);
  for (const Rows rows : {Rows{0, 33}, Rows{8, 32}, Rows{0, 8}, Rows{16, 16}}) {
    EXPECT_EQ(dense_gemm(m, w.packed(), rows, out.data(), 32), kBad);
  }
  EXPECT_EQ(dense_gemm(m, w.packed(), all, nullptr, 32), kBad);
  EXPECT_EQ(dense_gemm(m, w.packed(), all, out.data(), 31), kBad);
}

}  // namespace
}  // namespace tessera::kernels::dense_test
