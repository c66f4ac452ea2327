// Theorem 1 of SplitQuant and LLM-PQ, drawn by lot, and the mathematics that the indicators stand
// on.
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <numbers>
#include <vector>

#include "expect_error.h"
#include "hessian.h"
#include "tessera/core/rng.h"
#include "tessera/indicator/variance.h"
#include "tessera/kernels/quantise.h"

namespace tessera::indicator::theory_test {
namespace {

using kernels::Rounding;

constexpr int kDraws = 1000, kFeatures = 256, kTokens = 32;

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) *
         std::cos(2 * std::numbers::pi * rng.uniform());
}

struct Estimate {
  double mean = 0, standard_error = 0;
};

Estimate estimate_of(const std::vector<double>& draws) {
  double mean = 0, squares = 0;
  for (const double x : draws) mean += x / static_cast<double>(draws.size());
  for (const double x : draws) squares += (x - mean) * (x - mean);
  const auto count = static_cast<double>(draws.size());
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

// Uncorrelated inputs, each feature with a mean and a variance of its own.
struct Inputs {
  std::vector<float> mean, variance;

  Inputs() {
    Rng rng(11);
    for (int j = 0; j < kFeatures; ++j) {
      mean.push_back(static_cast<float>(2 * rng.uniform() - 1));
      variance.push_back(static_cast<float>(0.5 + rng.uniform()));
    }
  }
  double draw(int j, Rng& rng) const {
    const auto at = static_cast<std::size_t>(j);
    return mean[at] + std::sqrt(variance[at]) * normal(rng);
  }
};

// One row of weights, spread over the whole range so that their fractions of a step are uniform:
// rounding errors are independent with zero mean, as the theorem takes them to be.
struct Row {
  std::vector<float> weight, quantised;
  float scale = 0;

  Row(Rng& rng, Rounding rounding, std::uint64_t seed) : weight(kFeatures), quantised(kFeatures) {
    const kernels::QuantFormat format{3, false, 0, kernels::Real::f32};
    std::uint8_t zero_point = 0;
    kernels::scale_of_range(-1, 1, format, &scale, &zero_point);
    // Nothing clips: half a step is left at both ends.
    for (float& w : weight) w = static_cast<float>((2 * rng.uniform() - 1) * (1 - scale));
    std::vector<std::uint8_t> codes(kFeatures);
    const kernels::Matrix matrix{weight.data(), kernels::Real::f32, 1, kFeatures, kFeatures};
    kernels::quantise(matrix, {0, 1}, format, &scale, &zero_point, rounding, seed, codes.data());
    kernels::dequantise(codes.data(), {0, 1}, kFeatures, format, &scale, &zero_point,
                        quantised.data());
  }
};

// What the rounding errors of `rounded`, added to the weights of `row`, do to one sample of tokens.
struct Effect {
  double variance_increase = 0;  ///< of the row's output, over tokens
  double error_variance = 0;     ///< of what the errors alone give, over tokens
  double error_square = 0;       ///< its mean square
};

Effect effect_of(const Row& rounded, const Row& row, const Inputs& inputs, Rng& rng) {
  double sums[3] = {}, squares[3] = {};
  for (int t = 0; t < kTokens; ++t) {
    double y[3] = {};  // of the weights, of weights with errors, of the errors
    for (int j = 0; j < kFeatures; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double x = inputs.draw(j, rng);
      y[0] += row.weight[at] * x;
      y[2] += (rounded.quantised[at] - rounded.weight[at]) * x;
    }
    y[1] = y[0] + y[2];
    for (int k = 0; k < 3; ++k) {
      sums[k] += y[k];
      squares[k] += y[k] * y[k];
    }
  }
  const auto variance = [&](int k) {
    return (squares[k] - sums[k] * sums[k] / kTokens) / (kTokens - 1);
  };
  return {variance(1) - variance(0), variance(2), squares[2] / kTokens};
}

// Mean over the draws of one of the numbers of an effect, errors and weights from two rows drawn
// independently.
Estimate draw_effects(Rounding rounding, double Effect::*number, double* step) {
  const Inputs inputs;
  Rng rng(1);
  std::vector<double> draws;
  for (int i = 0; i < kDraws; ++i) {
    const Row rounded(rng, rounding, static_cast<std::uint64_t>(i));
    const Row row(rng, rounding, 0);
    *step = rounded.scale;
    draws.push_back(effect_of(rounded, row, inputs, rng).*number);
  }
  return estimate_of(draws);
}

void expect_mean(const Estimate& found, double expected) {
  EXPECT_NEAR(found.mean, expected, 4 * found.standard_error);
  EXPECT_LT(4 * found.standard_error, 0.5 * expected) << "too few draws to tell anything";
}

// Sum over the features of G(X).
double sum_of_g(Rounding rounding) {
  const Inputs inputs;
  return input_sums({inputs.mean, inputs.variance}, kFeatures, rounding).back();
}

// The errors have to be independent of the weights that they are added to: a weight and its own
// error to the nearest code are not, and the output's variance may then even fall.
TEST(Theorem1, DeterministicRoundingAddsATwelfthOfTheSquaredStepPerWeight) {
  double step = 0;
  const Estimate found = draw_effects(Rounding::nearest, &Effect::variance_increase, &step);
  const double bound = step * step * sum_of_g(Rounding::nearest);  // D_W S^2 1/4 Var[X]
  expect_mean(found, bound / 3);
  EXPECT_LT(found.mean, bound);
}

TEST(Theorem1, DeterministicErrorsHaveThatVarianceByThemselves) {
  double step = 0;
  const Estimate found = draw_effects(Rounding::nearest, &Effect::error_variance, &step);
  expect_mean(found, step * step * sum_of_g(Rounding::nearest) / 3);
}

TEST(Theorem1, StochasticRoundingAddsASixth) {
  double step = 0;
  const Estimate found = draw_effects(Rounding::stochastic, &Effect::error_square, &step);
  expect_mean(found, step * step * sum_of_g(Rounding::stochastic));
}

TEST(InputSums, AreOfUnitVarianceWhereNothingIsKnown) {
  EXPECT_EQ(input_sums({}, 3, Rounding::nearest), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_DOUBLE_EQ(input_sums({}, 6, Rounding::stochastic).back(), 1);
}

TEST(InputSums, RefuseMomentsThatAreNone) {
  const std::vector<float> one{1}, two{1, 2}, negative{-1}, nan{NAN};
  const auto refused = [](const std::string& part, std::span<const float> mean,
                          std::span<const float> variance) {
    test::expect_error(ErrorCode::invalid_argument, {part}, [&] {
      input_sums({mean, variance}, 1, Rounding::nearest);
    });
  };
  refused("2 inputs have a variance, the operator has 1", one, two);
  refused("0 inputs have a mean", {}, one);
  refused("variance of input feature 0 is -1", one, negative);
  refused("mean of input feature 0 is nan", nan, one);
}

TEST(Steps, AreThePapers) {
  EXPECT_EQ(num_levels(4, true, StepForm::splitquant), 7);
  EXPECT_EQ(num_levels(4, false, StepForm::splitquant), 15);
  EXPECT_EQ(num_levels(4, true, StepForm::llm_pq), 8);
  EXPECT_EQ(num_levels(16, false, StepForm::llm_pq), 65536);
  EXPECT_EQ(range_of(-3, 2, true), 3);
  EXPECT_EQ(range_of(-3, 2, false), 5);
  EXPECT_EQ(range_of(1, 2, false), 2);  // 0 has a code
  EXPECT_EQ(range_of(0, 0, true), 0);
}

// X^T X / tokens of random inputs whose features differ in size by `spread`.
Eigen::MatrixXf random_hessian(Eigen::Index features, Eigen::Index tokens, double spread,
                               std::uint64_t seed) {
  Rng rng(seed);
  Eigen::MatrixXf x(tokens, features);
  for (Eigen::Index j = 0; j < features; ++j) {
    const double size = std::pow(spread, rng.uniform());
    for (Eigen::Index t = 0; t < tokens; ++t) x(t, j) = static_cast<float>(size * normal(rng));
  }
  return x.transpose() * x / static_cast<float>(tokens);
}

double top_by_decomposition(const Eigen::MatrixXf& hessian) {
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(hessian.cast<double>())
      .eigenvalues()
      .maxCoeff();
}

TEST(TopEigenvalue, IsThatOfTheFullDecomposition) {
  for (const Eigen::Index features : {1, 2, 7, 64, 200}) {
    for (const double spread : {1.0, 10.0, 1000.0}) {
      const Eigen::MatrixXf hessian =
          random_hessian(features, 100, spread, static_cast<std::uint64_t>(features));
      const double expected = top_by_decomposition(hessian);
      EXPECT_NEAR(top_eigenvalue(hessian), expected, 1e-3 * expected) << features << " " << spread;
    }
  }
}

TEST(TopEigenvalue, TakesEqualAndZeroEigenvalues) {
  EXPECT_NEAR(top_eigenvalue(Eigen::MatrixXf::Identity(50, 50)), 1, 1e-6);
  EXPECT_EQ(top_eigenvalue(Eigen::MatrixXf::Zero(5, 5)), 0);
  const Eigen::VectorXf ones = Eigen::VectorXf::Ones(40);
  EXPECT_NEAR(top_eigenvalue(ones * ones.transpose()), 40, 1e-4);
}

TEST(TopEigenvalue, OfTheInverseFactorIsThatOfTheTriangle) {
  const Eigen::MatrixXf hessian = random_hessian(40, 200, 10, 3);
  Eigen::MatrixXd damped = hessian.cast<double>();
  damped.diagonal().array() += 0.01 * damped.diagonal().mean();
  const Eigen::MatrixXd upper = damped.inverse().llt().matrixU();
  const double expected = upper.eigenvalues().real().maxCoeff();
  EXPECT_NEAR(top_eigenvalue_of_inverse_factor(hessian), expected, 1e-6 * expected);
}

TEST(TopEigenvalue, RefusesWhatIsNoHessian) {
  const auto refused = [](const std::string& part, const Eigen::MatrixXf& matrix) {
    test::expect_error(ErrorCode::invalid_argument, {part}, [&] { top_eigenvalue(matrix); });
    test::expect_error(ErrorCode::invalid_argument, {part},
                       [&] { top_eigenvalue_of_inverse_factor(matrix); });
  };
  refused("this one is 2 x 3", Eigen::MatrixXf::Ones(2, 3));
  refused("this one is 0 x 0", Eigen::MatrixXf(0, 0));
  refused("NaN or infinity", Eigen::MatrixXf::Constant(2, 2, NAN));
  test::expect_error(ErrorCode::invalid_argument, {"3 features is not positive definite"},
                     [] { top_eigenvalue_of_inverse_factor(-Eigen::MatrixXf::Identity(3, 3)); });
}

}  // namespace
}  // namespace tessera::indicator::theory_test
