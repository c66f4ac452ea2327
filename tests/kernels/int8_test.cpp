#include "tessera/kernels/int8.h"

#include "support.h"

namespace tessera::kernels::int8_test {
namespace {

using test::Guarded;
using test::Stored;

constexpr Status kBad = Status::invalid_argument;

TEST(QuantiseRows, UseTheLargestOfEachRow) {
  test::for_each_isa([](const std::string&) {
    for (const Real type : {Real::f32, Real::f16, Real::bf16}) {
      for (const std::int64_t columns : {1, 7, 8, 9, 31, 64, 333}) {
        constexpr std::int64_t kRows = 3;
        std::vector<float> values = test::normal_values(kRows * (columns + 1), 1);
        std::fill(values.begin(), values.begin() + columns, 0.0f);
        Stored x(values, type, 2);
        Guarded<std::int8_t> codes(kRows * columns, 1);
        Guarded<float> scale(kRows);
        const Matrix m{x.memory.data(), type, kRows, columns, columns + 1};
        ASSERT_EQ(quantise_rows(m, {0, kRows}, nullptr, codes.data(), scale.data()), Status::ok);
        ASSERT_EQ(codes.num_touched() + scale.num_touched(), 0);
        EXPECT_EQ(scale[0], 1);
        for (std::int64_t row = 1; row < kRows; ++row) {
          float largest = 0;
          for (std::int64_t c = 0; c < columns; ++c) {
            largest = std::max(largest, std::fabs(x[row * (columns + 1) + c]));
          }
          ASSERT_EQ(scale[row], largest / 127);
          for (std::int64_t c = 0; c < columns; ++c) {
            ASSERT_EQ(codes[row * columns + c], std::rint(x[row * (columns + 1) + c] / scale[row]));
          }
        }
      }
    }
  });
}

TEST(QuantiseRows, LeaveOutliersOut) {
  test::for_each_isa([](const std::string&) {
    std::vector<float> values = test::normal_values(100, 2);
    std::vector<std::uint8_t> is_outlier(100);
    for (const std::size_t at : {0u, 8u, 50u, 99u}) {
      values[at] = at == 8 ? NAN : 1000;
      is_outlier[at] = 1;
    }
    std::vector<std::int8_t> codes(100);
    float scale = 0;
    const Matrix m{values.data(), Real::f32, 1, 100, 100};
    ASSERT_EQ(quantise_rows(m, {0, 1}, is_outlier.data(), codes.data(), &scale), Status::ok);
    EXPECT_LT(scale, 5.0 / 127);
    for (const std::size_t at : {0u, 8u, 50u, 99u}) EXPECT_EQ(codes[at], 0);
    ASSERT_EQ(quantise_rows(m, {0, 1}, nullptr, codes.data(), &scale), Status::ok);
    EXPECT_TRUE(std::isnan(scale));
  });
}

std::vector<std::int8_t> random_codes(std::int64_t count, std::uint64_t stream, bool extreme) {
  std::mt19937_64 random(test::seed() + stream);
  std::vector<std::int8_t> codes(static_cast<std::size_t>(count));
  for (auto& code : codes) {
    const auto draw = random();
    code = static_cast<std::int8_t>(extreme ? (draw % 8 == 0 ? -127 : 127)
                                            : static_cast<int>(draw % 255) - 127);
  }
  return codes;
}

void check_int8(std::int64_t tokens, std::int64_t rows, std::int64_t columns, bool extreme) {
  const auto x = random_codes(tokens * columns, 3, extreme);
  const auto w = random_codes(rows * columns, 4, extreme);
  std::vector<float> x_scale = test::normal_values(tokens, 5),
                     w_scale = test::normal_values(rows, 6);
  Guarded<std::int8_t> packed(int8_weights_bytes(rows, columns));
  ASSERT_EQ(pack_int8_weights(w.data(), rows, columns, {0, rows}, packed.data()), Status::ok);
  ASSERT_EQ(packed.num_touched(), 0);
  const std::int64_t stride = rows + 2;
  Guarded<float> out(tokens * stride, 4);
  Guarded<float> poison(1);
  const std::int64_t half = rows / 2 / 16 * 16;
  for (const Rows slice : {Rows{half, rows}, Rows{0, half}}) {
    if (slice.first == slice.last) continue;
    ASSERT_EQ(int8_gemm(x.data(), x_scale.data(), tokens,
                        {rows, columns, packed.data(), w_scale.data()}, slice, out.data(), stride),
              Status::ok);
  }
  ASSERT_EQ(out.num_touched(), 0);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t r = 0; r < stride; ++r) {
      if (r >= rows) {
        ASSERT_EQ(std::memcmp(&out[t * stride + r], poison.data(), 4), 0) << "gap written";
        continue;
      }
      std::int64_t sum = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        sum += x[static_cast<std::size_t>(t * columns + k)] *
               w[static_cast<std::size_t>(r * columns + k)];
      }
      const double expected = static_cast<double>(sum) * x_scale[static_cast<std::size_t>(t)] *
                              w_scale[static_cast<std::size_t>(r)];
      ASSERT_NEAR(out[t * stride + r], expected, 3e-7 * std::fabs(expected))
          << tokens << "x" << rows << "x" << columns << " token " << t << " row " << r;
    }
  }
}

TEST(Int8Gemm, SumsExactlyAtAnySize) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 13, 50}) {
      for (const std::int64_t rows : {1, 16, 31, 50}) {
        for (const std::int64_t columns : {1, 3, 4, 5, 63, 64, 130}) {
          check_int8(tokens, rows, columns, false);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

// Products of 127 * 127 everywhere: saturating additions of 16 bits would show.
TEST(Int8Gemm, DoesNotSaturate) {
  test::for_each_isa([](const std::string& isa) {
    check_int8(3, 17, 3001, true);
    check_int8(1, 16, 70000, true);
    if (isa != "scalar") check_int8(203, 33, 3333, true);
  });
}

// Sums are exact and scaled in one order, so versions agree in every bit. Sizes around those of the
// tiles (4 tokens), blocks (16 rows), panels (192 tokens) and strips (512 columns).
TEST(Int8Gemm, EveryVersionGivesTheSameBits) {
  std::mt19937_64 random(test::seed() + 9);
  for (int round = 0; round < 12; ++round) {
    const auto draw = [&](std::int64_t most) {
      return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    };
    const std::int64_t tokens = draw(round < 9 ? 30 : 400), rows = draw(70), columns = draw(1100);
    const auto x = random_codes(tokens * columns, random(), false);
    const auto w = random_codes(rows * columns, random(), false);
    const std::vector<float> x_scale = test::normal_values(tokens, 5);
    const std::vector<float> w_scale = test::normal_values(rows, 6);
    Guarded<std::int8_t> packed(int8_weights_bytes(rows, columns));
    ASSERT_EQ(pack_int8_weights(w.data(), rows, columns, {0, rows}, packed.data()), Status::ok);
    std::vector<float> first;
    test::for_each_isa([&](const std::string&) {
      std::vector<float> out(static_cast<std::size_t>(tokens * rows));
      ASSERT_EQ(
          int8_gemm(x.data(), x_scale.data(), tokens,
                    {rows, columns, packed.data(), w_scale.data()}, {0, rows}, out.data(), rows),
          Status::ok);
      if (first.empty()) first = out;
      ASSERT_EQ(out, first) << tokens << "x" << rows << "x" << columns;
    });
  }
}

// The decomposition keeps what plain W8A8 loses when a few columns are a hundred times larger.
TEST(OutlierDecomposition, IsExactWhereRowsAloneAreNot) {
  test::for_each_isa([](const std::string&) {
    constexpr std::int64_t kTokens = 5, kRows = 40, kColumns = 256;
    std::vector<float> x = test::normal_values(kTokens * kColumns, 7);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      x[static_cast<std::size_t>(t * kColumns + 3)] = 200;
      x[static_cast<std::size_t>(t * kColumns + 90)] = t == 2 ? -70.0f : 0.1f;
    }
    for (float& value : x) value = std::fabs(value) < 60 ? std::clamp(value, -5.5f, 5.5f) : value;
    const std::vector<float> w = test::normal_values(kRows * kColumns, 8, 0, 0.05);
    const Matrix activations{x.data(), Real::f32, kTokens, kColumns, kColumns};
    const Matrix weights{w.data(), Real::f32, kRows, kColumns, kColumns};
    std::vector<std::uint8_t> is_outlier(kColumns);
    std::int64_t num_outliers = -1;
    ASSERT_EQ(
        find_outlier_columns(activations, kOutlierThreshold, is_outlier.data(), &num_outliers),
        Status::ok);
    EXPECT_EQ(num_outliers, 2);
    EXPECT_TRUE(is_outlier[3] == 1 && is_outlier[90] == 1);

    std::vector<std::int8_t> w_codes(kRows * kColumns), x_codes(kTokens * kColumns);
    std::vector<float> w_scale(kRows), x_scale(kTokens);
    ASSERT_EQ(quantise_rows(weights, {0, kRows}, nullptr, w_codes.data(), w_scale.data()),
              Status::ok);
    Guarded<std::int8_t> packed(int8_weights_bytes(kRows, kColumns));
    ASSERT_EQ(pack_int8_weights(w_codes.data(), kRows, kColumns, {0, kRows}, packed.data()),
              Status::ok);
    std::vector<double> expected;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      for (std::int64_t r = 0; r < kRows; ++r) {
        double sum = 0;
        for (std::int64_t k = 0; k < kColumns; ++k) {
          sum += double{x[static_cast<std::size_t>(t * kColumns + k)]} *
                 w[static_cast<std::size_t>(r * kColumns + k)];
        }
        expected.push_back(sum);
      }
    }
    double errors[2];
    for (const bool split : {false, true}) {
      std::vector<float> out(kTokens * kRows);
      ASSERT_EQ(quantise_rows(activations, {0, kTokens}, split ? is_outlier.data() : nullptr,
                              x_codes.data(), x_scale.data()),
                Status::ok);
      ASSERT_EQ(int8_gemm(x_codes.data(), x_scale.data(), kTokens,
                          {kRows, kColumns, packed.data(), w_scale.data()}, {0, kRows}, out.data(),
                          kRows),
                Status::ok);
      if (split) {
        ASSERT_EQ(add_outlier_product(activations, is_outlier.data(), weights, {0, kRows},
                                      out.data(), kRows),
                  Status::ok);
      }
      errors[split] = test::nmse(out, expected);
    }
    EXPECT_LT(errors[1], 1e-5);
    EXPECT_GT(errors[0], 20 * errors[1]);
  });
}

TEST(Int8, RefusesWhatIsWrong) {
  alignas(64) std::int8_t packed[64] = {};
  float x[8] = {}, scale[16] = {}, out[32];
  std::int8_t codes[64] = {};
  std::uint8_t is_outlier[8];
  std::int64_t count;
  const Matrix m{x, Real::f32, 2, 4, 4};
  const Matrix none{nullptr, Real::f32, 2, 4, 4};
  EXPECT_EQ(quantise_rows(none, {0, 2}, nullptr, codes, scale), kBad);
  EXPECT_EQ(quantise_rows(m, {0, 3}, nullptr, codes, scale), kBad);
  EXPECT_EQ(quantise_rows(m, {0, 2}, nullptr, nullptr, scale), kBad);
  EXPECT_EQ(quantise_rows(m, {0, 2}, nullptr, codes, nullptr), kBad);
  EXPECT_EQ(int8_weights_bytes(0, 4), 0);
  EXPECT_EQ(int8_weights_bytes(4, -1), 0);
  EXPECT_EQ(int8_weights_bytes(17, 5), 32 * 8);
  EXPECT_EQ(pack_int8_weights(nullptr, 16, 4, {0, 16}, packed), kBad);
  EXPECT_EQ(pack_int8_weights(codes, 16, 0, {0, 16}, packed), kBad);
  EXPECT_EQ(pack_int8_weights(codes, 16, 4, {0, 15}, packed), kBad);
  EXPECT_EQ(pack_int8_weights(codes, 16, 4, {0, 16}, packed + 1), kBad);
  const Int8Weights w{16, 4, packed, scale};
  EXPECT_EQ(int8_gemm(nullptr, scale, 2, w, {0, 16}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, nullptr, 2, w, {0, 16}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 0, w, {0, 16}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, {16, 4, nullptr, scale}, {0, 16}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, {16, 4, packed, nullptr}, {0, 16}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, w, {0, 17}, out, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, w, {0, 16}, nullptr, 16), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, w, {0, 16}, out, 15), kBad);
  EXPECT_EQ(int8_gemm(codes, scale, 2, {16, 200000, packed, scale}, {0, 16}, out, 16),
            Status::unsupported);
  EXPECT_EQ(find_outlier_columns(none, 6, is_outlier, &count), kBad);
  EXPECT_EQ(find_outlier_columns(m, 0, is_outlier, &count), kBad);
  EXPECT_EQ(find_outlier_columns(m, NAN, is_outlier, &count), kBad);
  EXPECT_EQ(find_outlier_columns(m, 6, nullptr, &count), kBad);
  EXPECT_EQ(find_outlier_columns(m, 6, is_outlier, nullptr), kBad);
  EXPECT_EQ(add_outlier_product(none, is_outlier, m, {0, 2}, out, 2), kBad);
  EXPECT_EQ(add_outlier_product(m, nullptr, m, {0, 2}, out, 2), kBad);
  EXPECT_EQ(add_outlier_product(m, is_outlier, {x, Real::f32, 2, 3, 3}, {0, 2}, out, 2), kBad);
  EXPECT_EQ(add_outlier_product(m, is_outlier, m, {0, 3}, out, 2), kBad);
  EXPECT_EQ(add_outlier_product(m, is_outlier, m, {0, 2}, nullptr, 2), kBad);
  EXPECT_EQ(add_outlier_product(m, is_outlier, m, {0, 2}, out, 1), kBad);
}

}  // namespace
}  // namespace tessera::kernels::int8_test
