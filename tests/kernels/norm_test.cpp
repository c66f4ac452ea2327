#include "tessera/kernels/norm.h"

#include "support.h"
#include "tessera/kernels/softmax.h"

namespace tessera::kernels::norm_test {
namespace {

using test::Guarded;

constexpr Status kBad = Status::invalid_argument;
constexpr std::int64_t kColumns[] = {1, 3, 4, 7, 8, 15, 16, 17, 63, 64, 65, 576, 1000};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

struct Row {
  double mean = 0, variance = 0, mean_square = 0;
  Row(const std::vector<float>& x, std::int64_t row, std::int64_t columns) {
    for (std::int64_t c = 0; c < columns; ++c) mean += x[index(row * columns + c)];
    mean /= static_cast<double>(columns);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double v = x[index(row * columns + c)];
      variance += (v - mean) * (v - mean) / static_cast<double>(columns);
      mean_square += v * v / static_cast<double>(columns);
    }
  }
};

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t columns : kColumns) {
      constexpr std::int64_t kRows = 4;
      const std::vector<float> x = test::normal_values(kRows * columns, 1, 0.5, 3);
      const std::vector<float> weight = test::normal_values(columns, 2, 1, 0.2);
      Guarded<float> out(kRows * columns, 1), poison(1);
      ASSERT_EQ(rms_norm(x.data(), {1, 3}, columns, weight.data(), 1e-5f, out.data()), Status::ok);
      ASSERT_EQ(out.num_touched(), 0);
      for (std::int64_t row = 0; row < kRows; ++row) {
        const Row r(x, row, columns);
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t i = row * columns + c;
          if (row == 0 || row == 3) {
            ASSERT_EQ(std::memcmp(&out[i], poison.data(), 4), 0) << "outside of the slice";
            continue;
          }
          const double expected =
              double{x[index(i)]} / std::sqrt(r.mean_square + double{1e-5f}) * weight[index(c)];
          ASSERT_NEAR(out[i], expected, 1e-6 * std::fabs(expected)) << columns;
        }
      }
      std::vector<float> same = x;
      ASSERT_EQ(rms_norm(same.data(), {1, 3}, columns, weight.data(), 1e-5f, same.data()),
                Status::ok);
      EXPECT_EQ(std::memcmp(&same[index(columns)], &out[columns], index(2 * columns) * 4), 0);
    }
  });
}

TEST(LayerNorm, TakesTheMeanOutFirst) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t columns : kColumns) {
      for (const bool plain : {false, true}) {
        constexpr std::int64_t kRows = 3;
        const std::vector<float> x = test::normal_values(kRows * columns, 3, 40, 2);
        const std::vector<float> weight = test::normal_values(columns, 4, 1, 0.2);
        const std::vector<float> bias = test::normal_values(columns, 5);
        Guarded<float> out(kRows * columns, 3);
        ASSERT_EQ(layer_norm(x.data(), {0, kRows}, columns, plain ? nullptr : weight.data(),
                             plain ? nullptr : bias.data(), 1e-3f, out.data()),
                  Status::ok);
        ASSERT_EQ(out.num_touched(), 0);
        for (std::int64_t i = 0; i < kRows * columns; ++i) {
          const Row r(x, i / columns, columns);
          const double w = plain ? 1 : weight[index(i % columns)];
          const double b = plain ? 0 : bias[index(i % columns)];
          const double expected =
              (double{x[index(i)]} - r.mean) / std::sqrt(r.variance + double{1e-3f}) * w + b;
          // The mean in f32 is off by some of its last places.
          ASSERT_NEAR(out[i], expected, 3e-5 * (std::fabs(w) + std::fabs(b))) << columns;
        }
      }
    }
  });
}

TEST(Norms, KeepNanAndInfInTheirRows) {
  test::for_each_isa([](const std::string&) {
    constexpr std::int64_t kWidth = 37;
    std::vector<float> x = test::normal_values(4 * kWidth, 6);
    const std::vector<float> clean = x, weight(kWidth, 1.0f);
    x[kWidth + 36] = NAN;
    x[3 * kWidth] = INFINITY;
    std::vector<float> rms(x.size()), layer(x.size()), rms_clean(x.size()), layer_clean(x.size());
    const auto run = [&](const std::vector<float>& in, std::vector<float>& a,
                         std::vector<float>& b) {
      ASSERT_EQ(rms_norm(in.data(), {0, 4}, kWidth, weight.data(), 0, a.data()), Status::ok);
      ASSERT_EQ(layer_norm(in.data(), {0, 4}, kWidth, nullptr, nullptr, 0, b.data()), Status::ok);
    };
    run(x, rms, layer);
    run(clean, rms_clean, layer_clean);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i / kWidth == 1) {
        EXPECT_TRUE(std::isnan(rms[i]) && std::isnan(layer[i]));
      } else if (i / kWidth == 3) {
        EXPECT_TRUE(std::isnan(layer[i]));
      } else {
        EXPECT_TRUE(rms[i] == rms_clean[i] && layer[i] == layer_clean[i]);
      }
    }
    EXPECT_TRUE(std::isnan(rms[3 * kWidth]));  // Inf / Inf
  });
}

TEST(Norms, RefuseWhatIsNotValidAndLeaveTheOutput) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  Guarded<float> out(8);
  const std::vector<float> before = out.copy();
  const float nan = NAN;
  EXPECT_EQ(rms_norm(nullptr, {0, 2}, 4, x, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, 2}, 4, nullptr, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, 2}, 4, x, 0, nullptr), kBad);
  EXPECT_EQ(rms_norm(x, {1, 1}, 4, x, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {-1, 1}, 4, x, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, 2}, 0, x, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, INT64_MAX}, 4, x, 0, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, 2}, 4, x, -1, out.data()), kBad);
  EXPECT_EQ(rms_norm(x, {0, 2}, 4, x, nan, out.data()), kBad);
  EXPECT_EQ(layer_norm(x, {0, 2}, 4, x, x, nan, out.data()), kBad);
  EXPECT_EQ(layer_norm(nullptr, {0, 2}, 4, x, x, 0, out.data()), kBad);
  EXPECT_EQ(layer_norm(x, {2, 0}, 4, x, x, 0, out.data()), kBad);
  EXPECT_EQ(add(nullptr, {0, 2}, 4, out.data()), kBad);
  EXPECT_EQ(add(x, {0, 2}, -4, out.data()), kBad);
  EXPECT_EQ(add_bias(x, {0, 2}, 4, 3, out.data()), kBad);
  EXPECT_EQ(add_bias(x, {0, 0}, 4, 4, out.data()), kBad);
  EXPECT_EQ(log_sum_exp(nullptr, {0, 2}, 4, out.data()), kBad);
  EXPECT_EQ(log_sum_exp(x, {0, 2}, 0, out.data()), kBad);
  EXPECT_EQ(log_sum_exp(x, {0, 0}, 4, out.data()), kBad);
  EXPECT_EQ(log_sum_exp(x, {0, 2}, 4, nullptr), kBad);
  EXPECT_EQ(std::memcmp(out.data(), before.data(), sizeof(x)), 0);
}

TEST(Add, AddsTheRowsOfTheSlice) {
  std::vector<float> sum = {1, 2, 3, 4, 5, 6}, in = {10, 20, 30, 40, 50, 60};
  ASSERT_EQ(add(in.data(), {1, 2}, 2, sum.data()), Status::ok);
  EXPECT_EQ(sum, (std::vector<float>{1, 2, 33, 44, 5, 6}));
  ASSERT_EQ(add_bias(in.data(), {0, 2}, 2, 3, sum.data()), Status::ok);
  EXPECT_EQ(sum, (std::vector<float>{11, 22, 33, 54, 25, 6}));
}

double expected_log_sum_exp(const std::vector<float>& x) {
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float v : x) sum += std::exp(double{v} - largest);
  return largest + std::log(sum);
}

TEST(LogSumExp, IsExactForRowsOfAnyLength) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t columns : {1, 2, 15, 16, 17, 63, 64, 100, 1024, 1025, 49152, 150000}) {
      for (const double deviation : {0.0, 1.0, 5.0}) {
        const std::vector<float> x = test::normal_values(columns, 7, -3, deviation);
        float got[2] = {0, 0};
        std::vector<float> rows = x;
        rows.insert(rows.end(), x.begin(), x.end());
        ASSERT_EQ(log_sum_exp(rows.data(), {1, 2}, columns, got), Status::ok);
        EXPECT_EQ(got[0], 0);
        const double expected = expected_log_sum_exp(x);
        EXPECT_NEAR(got[1], expected, 1e-6 * std::max(1.0, std::fabs(expected)))
            << columns << " " << deviation;
      }
    }
  });
}

TEST(LogSumExp, NeitherOverflowsNorHidesNan) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t columns : {5, 16, 40}) {
      const auto of = [&](float all, float one) {
        std::vector<float> x(index(columns), all);
        x[index(columns - 2)] = one;
        float got = 0;
        EXPECT_EQ(log_sum_exp(x.data(), {0, 1}, columns, &got), Status::ok);
        return got;
      };
      EXPECT_EQ(of(1e30f, 3e38f), 3e38f);
      EXPECT_EQ(of(-3e38f, 0), 0);
      EXPECT_EQ(of(-INFINITY, 2), 2);
      EXPECT_EQ(of(1, INFINITY), INFINITY);
      EXPECT_EQ(of(-INFINITY, INFINITY), INFINITY);
      EXPECT_EQ(of(-INFINITY, -INFINITY), -INFINITY);
      EXPECT_TRUE(std::isnan(of(1, NAN)));
      EXPECT_TRUE(std::isnan(of(INFINITY, NAN)));
      EXPECT_TRUE(std::isnan(of(-INFINITY, NAN)));
    }
  });
}

}  // namespace
}  // namespace tessera::kernels::norm_test
