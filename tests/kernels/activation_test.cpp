#include "tessera/kernels/activation.h"

#include "support.h"

namespace tessera::kernels::activation_test {
namespace {

using test::Guarded;

constexpr Activation kAll[] = {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                               Activation::silu};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// As the definitions say, in double.
double expected_of(Activation activation, double x) {
  switch (activation) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return x * std::erfc(-x / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh: {
      const double y = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1 + std::tanh(y));
    }
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

void expect_value(double got, Activation activation, double x) {
  const double expected = expected_of(activation, x);
  EXPECT_NEAR(got, expected, std::max(1e-7, 1e-6 * std::fabs(expected)))
      << "activation " << static_cast<int>(activation) << " of " << x;
}

TEST(Activate, IsNearTheDefinitionEverywhere) {
  std::vector<float> x;
  for (int i = -30000; i <= 30000; ++i) x.push_back(static_cast<float>(i) * 1e-3f);
  for (float v = 1e-40f; v < 1e30f; v *= 3) x.insert(x.end(), {v, -v});
  test::for_each_isa([&](const std::string&) {
    for (const Activation activation : kAll) {
      std::vector<float> got = x;
      const auto count = static_cast<std::int64_t>(x.size());
      ASSERT_EQ(activate(activation, {0, 1}, count, count, got.data()), Status::ok);
      for (std::size_t i = 0; i < x.size(); ++i) expect_value(got[i], activation, x[i]);
    }
  });
}

TEST(Activate, GivesNanForNanAlone) {
  test::for_each_isa([](const std::string&) {
    for (const Activation activation : kAll) {
      for (const std::int64_t columns : {5, 16, 21}) {
        std::vector<float> x(index(2 * columns), 1.0f);
        x[index(columns - 1)] = NAN;
        x[index(columns)] = INFINITY;
        ASSERT_EQ(activate(activation, {0, 2}, columns, columns, x.data()), Status::ok);
        EXPECT_TRUE(std::isnan(x[index(columns - 1)]));
        EXPECT_EQ(x[index(columns)], INFINITY);
        EXPECT_EQ(std::count_if(x.begin(), x.end(), [](float v) { return std::isfinite(v); }),
                  2 * columns - 2);
      }
    }
  });
}

TEST(Activate, WritesTheColumnsOfTheSlice) {
  test::for_each_isa([](const std::string&) {
    for (const std::int64_t columns : {1, 4, 9, 16, 33}) {
      const std::int64_t stride = columns + 3;
      const std::vector<float> x = test::normal_values(4 * stride, 1);
      Guarded<float> got(4 * stride, 1);
      std::copy(x.begin(), x.end(), got.data());
      ASSERT_EQ(activate(Activation::silu, {1, 3}, columns, stride, got.data()), Status::ok);
      ASSERT_EQ(got.num_touched(), 0);
      for (std::int64_t i = 0; i < 4 * stride; ++i) {
        if (i / stride == 1 || i / stride == 2) {
          if (i % stride < columns) {
            expect_value(got[i], Activation::silu, x[index(i)]);
            continue;
          }
        }
        ASSERT_EQ(got[i], x[index(i)]) << i;
      }
    }
  });
}

TEST(GatedActivation, MultipliesTheTwoHalves) {
  test::for_each_isa([](const std::string&) {
    for (const Activation activation : kAll) {
      for (const std::int64_t columns : {1, 7, 16, 50}) {
        const std::vector<float> x = test::normal_values(3 * 2 * columns, 2, 0, 2);
        Guarded<float> out(3 * (columns + 1));
        const std::vector<float> before = out.copy();
        ASSERT_EQ(gated_activation(activation, x.data(), x.data() + columns, 2 * columns, {0, 2},
                                   columns, out.data(), columns + 1),
                  Status::ok);
        ASSERT_EQ(out.num_touched(), 0);
        for (std::int64_t i = 0; i < 3 * (columns + 1); ++i) {
          const std::int64_t row = i / (columns + 1), c = i % (columns + 1);
          if (row == 2 || c == columns) {
            ASSERT_EQ(std::memcmp(&out[i], &before[index(i)], 4), 0);
            continue;
          }
          const double up = x[index(row * 2 * columns + columns + c)];
          const double expected = expected_of(activation, x[index(row * 2 * columns + c)]) * up;
          ASSERT_NEAR(out[i], expected, 1e-6 * std::fabs(expected) + 1e-7 * std::fabs(up));
        }
      }
    }
  });
}

TEST(Activations, RefuseWhatIsNotValid) {
  std::vector<float> x(16, 2.0f);
  constexpr Status kBad = Status::invalid_argument;
  EXPECT_EQ(activate(static_cast<Activation>(9), {0, 1}, 4, 4, x.data()), kBad);
  EXPECT_EQ(activate(Activation::relu, {0, 1}, 4, 3, x.data()), kBad);
  EXPECT_EQ(activate(Activation::relu, {0, 1}, 0, 3, x.data()), kBad);
  EXPECT_EQ(activate(Activation::relu, {0, 1}, 4, 4, nullptr), kBad);
  EXPECT_EQ(activate(Activation::relu, {1, 1}, 4, 4, x.data()), kBad);
  const float* in = x.data();
  EXPECT_EQ(gated_activation(Activation::silu, nullptr, in, 4, {0, 1}, 4, x.data(), 4), kBad);
  EXPECT_EQ(gated_activation(Activation::silu, in, nullptr, 4, {0, 1}, 4, x.data(), 4), kBad);
  EXPECT_EQ(gated_activation(Activation::silu, in, in, 4, {0, 1}, 4, nullptr, 4), kBad);
  EXPECT_EQ(gated_activation(Activation::silu, in, in, 3, {0, 1}, 4, x.data(), 4), kBad);
  EXPECT_EQ(gated_activation(Activation::silu, in, in, 4, {0, 1}, 4, x.data(), 3), kBad);
  EXPECT_EQ(gated_activation(static_cast<Activation>(-1), in, in, 4, {0, 1}, 4, x.data(), 4), kBad);
  EXPECT_EQ(x, std::vector<float>(16, 2.0f));
}

}  // namespace
}  // namespace tessera::kernels::activation_test
