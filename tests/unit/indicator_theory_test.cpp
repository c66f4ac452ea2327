// Theorem 1 of SplitQuant and LLM-PQ, drawn by lot, and the mathematics that the indicators stand on.
#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <cmath>
#include <numbers>
#include <vector>

#include "expect_error.h"
#include "tessera/core/rng.h"
#include "tessera/indicator/hessian.h"
#include "tessera/indicator/variance.h"
#include "tessera/kernels/quantise.h"

namespace tessera::indicator {
namespace {

using kernels::Rounding;

constexpr int kDraws = 1000, kFeatures = 32, kTokens = 64;

double normal(Rng& rng) {
  return std::sqrt(-2 * std::log(1 - rng.uniform())) * std::cos(2 * std::numbers::pi * rng.uniform());
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
    const kernels::QuantFormat format{4, false, 0, kernels::Real::f32};
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

// Variance over tokens of the outputs of the quantised row less that of the row itself.
double variance_increase(const Row& row, const Inputs& inputs, Rng& rng) {
  double sums[2] = {}, squares[2] = {};
  for (int t = 0; t < kTokens; ++t) {
    double y[2] = {};
    for (int j = 0; j < kFeatures; ++j) {
      const double x = inputs.draw(j, rng);
      y[0] += row.weight[static_cast<std::size_t>(j)] * x;
      y[1] += row.quantised[static_cast<std::size_t>(j)] * x;
    }
    for (int k = 0; k < 2; ++k) {
      sums[k] += y[k];
      squares[k] += y[k] * y[k];
    }
  }
  const auto variance = [&](int k) {
    return (squares[k] - sums[k] * sums[k] / kTokens) / (kTokens - 1);
  };
  return variance(1) - variance(0);
}

// Mean over tokens of the squared error of the output: where weights are rounded by lot with zero
// mean, it is what the output's variance grows by.
double squared_error(const Row& row, const Inputs& inputs, Rng& rng) {
  double sum = 0;
  for (int t = 0; t < kTokens; ++t) {
    double e = 0;
    for (int j = 0; j < kFeatures; ++j) {
      const auto at = static_cast<std::size_t>(j);
      e += (row.quantised[at] - row.weight[at]) * inputs.draw(j, rng);
    }
    sum += e * e / kTokens;
  }
  return sum;
}

TEST(Theorem1, DeterministicRoundingAddsATwelfthOfTheSquaredStepPerWeight) {
  const Inputs inputs;
  Rng rng(1);
  std::vector<double> draws;
  double step = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Row row(rng, Rounding::nearest, 0);
    step = row.scale;
    draws.push_back(variance_increase(row, inputs, rng));
  }
  const std::vector<double> sums = input_sums({inputs.mean, inputs.variance}, kFeatures, Rounding::nearest);
  const double bound = step * step * sums.back();  // D_W S^2 1/4 Var[X]
  const Estimate found = estimate_of(draws);
  EXPECT_NEAR(found.mean, bound / 3, 4 * found.standard_error);  // 1/12
  EXPECT_LT(4 * found.standard_error, 0.5 * bound / 3) << "too few draws to tell anything";
  EXPECT_LT(found.mean, bound);
}

TEST(Theorem1, StochasticRoundingAddsASixth) {
  const Inputs inputs;
  Rng rng(2);
  std::vector<double> draws;
  double step = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Row row(rng, Rounding::stochastic, static_cast<std::uint64_t>(i));
    step = row.scale;
    draws.push_back(squared_error(row, inputs, rng));
  }
  const std::vector<double> sums =
      input_sums({inputs.mean, inputs.variance}, kFeatures, Rounding::stochastic);
  const double expected = step * step * sums.back();  // D_W S^2 1/6 (E[X]^2 + Var[X])
  const Estimate found = estimate_of(draws);
  EXPECT_NEAR(found.mean, expected, 4 * found.standard_error);
  EXPECT_LT(4 * found.standard_error, 0.2 * expected) << "too few draws to tell anything";
}

TEST(InputSums, AreOfUnitVarianceWhereNothingIsKnown) {
  EXPECT_EQ(input_sums({}, 3, Rounding::nearest), (std::vector<double>{0, 0.25, 0.5, 0.75}));
  EXPECT_DOUBLE_EQ(input_sums({}, 6, Rounding::stochastic).back(), 1);
}

TEST(InputSums, RefuseMomentsThatAreNone) {
  const std::vector<float> one{1}, two{1, 2}, negative{-1}, nan{NAN};
  const auto refused = [](const std::string& part, std::span<const float> mean,
                          std::span<const float> variance) {
    test::expect_error(ErrorCode::invalid_argument, {part},
                       [&] { input_sums({mean, variance}, 1, Rounding::nearest); });
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
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(hessian.cast<double>()).eigenvalues().maxCoeff();
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
}  // namespace tessera::indicator
