// Codes of one matrix: what each method promises, and what is refused.

#include "tessera/quant/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "calibration.h"
#include "expect_error.h"

namespace tessera::quant::quantise_test {
namespace {

using test::expect_error;
using test::RowMatrix;

Scheme groups(int bitwidth, std::int64_t group_size) {
  return {.bitwidth = bitwidth, .group_size = group_size};
}

TEST(Gptq, WithUncorrelatedEqualInputsIsRoundToNearest) {
  Rng rng(1);
  const RowMatrix weight = test::random_matrix(20, 96, rng);
  LinearStatistics inputs = test::statistics_of(test::random_inputs(10, 96, rng));
  inputs.hessian = Eigen::MatrixXf::Identity(96, 96);
  for (const Granularity g : {Granularity::tensor, Granularity::channel, Granularity::group}) {
    const Scheme scheme{.bitwidth = 4, .granularity = g, .group_size = 32};
    const Quantised gptq = quantise(test::view(weight), scheme, Method::gptq, &inputs);
    const Quantised rtn = quantise(test::view(weight), scheme);
    EXPECT_EQ(gptq.codes, rtn.codes);
    EXPECT_EQ(gptq.scales, rtn.scales);
    EXPECT_EQ(*gptq.output_error, *gptq.rtn_output_error);
  }
}

TEST(Gptq, ReportsTheTrueErrorAndStaysBelowRoundToNearest) {
  Rng rng(2);
  for (const int bitwidth : {3, 4, 8}) {
    const RowMatrix weight = test::random_matrix(64, 200, rng);
    const auto inputs = test::statistics_of(test::random_inputs(500, 200, rng));
    for (const ActOrder order : {ActOrder::none, ActOrder::weight, ActOrder::group}) {
      Scheme scheme = groups(bitwidth, 64);
      scheme.act_order = order;
      const Quantised gptq = quantise(test::view(weight), scheme, Method::gptq, &inputs);
      const Quantised rtn = quantise(test::view(weight), groups(bitwidth, 64));
      EXPECT_EQ(gptq.method, Method::gptq);
      const double error = output_error(test::view(weight), gptq, inputs);
      const double rtn_error = output_error(test::view(weight), rtn, inputs);
      EXPECT_NEAR(*gptq.output_error / error, 1, 1e-3);
      EXPECT_NEAR(*gptq.rtn_output_error / rtn_error, 1, 1e-3);
      EXPECT_LT(error, 0.9 * rtn_error);
    }
  }
}

// Greedy compensation is not optimal: of many small matrices, it loses on some.
TEST(Gptq, KeepsRoundToNearestWhereThatIsBetter) {
  Rng rng(3);
  int kept = 0;
  constexpr int kDraws = 400;
  for (int i = 0; i < kDraws; ++i) {
    const RowMatrix w = test::random_matrix(1, 8, rng);
    const auto x = test::statistics_of(test::random_inputs(9, 8, rng));
    const Quantised q = quantise(test::view(w), groups(3, 4), Method::gptq, &x);
    const Quantised rtn = quantise(test::view(w), groups(3, 4));
    EXPECT_LE(output_error(test::view(w), q, x), output_error(test::view(w), rtn, x));
    if (q.method != Method::rtn) continue;
    ++kept;
    EXPECT_EQ(q.codes, rtn.codes);
    EXPECT_EQ(*q.output_error, *q.rtn_output_error);
  }
  EXPECT_GT(kept, 0) << "the draws hold no case in which GPTQ is worse";
  EXPECT_LT(kept, kDraws);
}

TEST(Gptq, DeadColumnsBecomeZeroAndWidenNoRange) {
  Rng rng(4);
  RowMatrix weight = test::random_matrix(8, 64, rng);
  weight.col(5).setConstant(1000);
  RowMatrix x = test::random_inputs(200, 64, rng);
  x.col(5).setZero();
  const auto inputs = test::statistics_of(x);
  const Quantised q = quantise(test::view(weight), groups(4, 64), Method::gptq, &inputs);
  EXPECT_EQ(q.method, Method::gptq);
  EXPECT_TRUE(test::values_of(q).col(5).isZero());
  EXPECT_LT(q.scale_max(), 2);
}

TEST(Gptq, NoInputAtAllLeavesRoundToNearest) {
  Rng rng(5);
  const RowMatrix weight = test::random_matrix(4, 32, rng);
  const auto inputs = test::statistics_of(RowMatrix::Zero(10, 32));
  const Quantised q = quantise(test::view(weight), groups(4, 32), Method::gptq, &inputs);
  EXPECT_EQ(q.method, Method::rtn);
  EXPECT_EQ(*q.output_error, 0);
}

// Fewer tokens than features: H has no inverse without damping.
TEST(Gptq, DampsASingularHessian) {
  Rng rng(6);
  const RowMatrix weight = test::random_matrix(16, 128, rng);
  const auto inputs = test::statistics_of(test::random_inputs(3, 128, rng));
  const Quantised q = quantise(test::view(weight), groups(4, 32), Method::gptq, &inputs);
  EXPECT_EQ(q.damping, 0.01);
  EXPECT_LT(output_error(test::view(weight), q, inputs), *q.rtn_output_error);
}

TEST(Gptq, DampsMoreUntilTheFactorisationHolds) {
  Rng rng(7);
  const RowMatrix weight = test::random_matrix(4, 16, rng);
  auto inputs = test::statistics_of(test::random_inputs(40, 16, rng));
  Eigen::MatrixXf h = Eigen::MatrixXf::Identity(16, 16);
  h(0, 1) = h(1, 0) = 1.05f;  // an eigenvalue of -0.05: more than 1 % makes up for
  inputs.hessian = h;
  EXPECT_EQ(quantise(test::view(weight), groups(4, 16), Method::gptq, &inputs).damping, 0.1);
  h(0, 1) = h(1, 0) = 30;
  inputs.hessian = h;
  expect_error(ErrorCode::invalid_argument, {"not positive definite", "write the statistics again"},
               [&] { quantise(test::view(weight), groups(4, 16), Method::gptq, &inputs); });
}

// Their codes would stand for infinity.
TEST(Quantise, RefusesWeightsNearTheLargestFloat) {
  RowMatrix weight = RowMatrix::Zero(4, 16);
  weight(2, 5) = 3.4e38f;
  weight(2, 6) = -3.4e38f;
  for (const bool symmetric : {true, false}) {
    Scheme scheme = groups(8, 8);
    scheme.symmetric = symmetric;
    expect_error(ErrorCode::invalid_argument, {"row 2", "beyond what a float holds"},
                 [&] { quantise(test::view(weight), scheme, Method::rtn, nullptr); });
  }
  weight *= 0.1f;
  EXPECT_TRUE(std::isfinite(
      weight_error(test::view(weight), quantise(test::view(weight), groups(8, 8))).mse));
}

// Sums over them are infinite, and the difference of two such is no number.
TEST(Quantise, RefusesStatisticsNearTheLargestFloat) {
  Rng rng(9);
  const RowMatrix weight = test::random_matrix(8, 32, rng);
  LinearStatistics inputs = test::statistics_of(test::random_inputs(64, 32, rng));
  inputs.hessian = *inputs.hessian * 1e36f;
  for (const Method method : {Method::rtn, Method::awq}) {
    expect_error(ErrorCode::invalid_argument, {"too large", "collect them again"},
                 [&] { quantise(test::view(weight), groups(4, 16), method, &inputs); });
  }
}

TEST(Quantise, TheSameForAnyNumberOfThreads) {
  Rng rng(8);
  const RowMatrix weight = test::random_matrix(300, 260, rng);
  const auto inputs = test::statistics_of(test::random_inputs(400, 260, rng));
  for (const Method method : {Method::rtn, Method::gptq, Method::awq}) {
    Scheme scheme = groups(4, 64);
    if (method == Method::rtn) scheme.rounding = kernels::Rounding::stochastic;
    const Quantised one = quantise(test::view(weight), scheme, method, &inputs, 1);
    const Quantised three = quantise(test::view(weight), scheme, method, &inputs, 3);
    EXPECT_EQ(one.codes, three.codes);
    EXPECT_EQ(one.scales, three.scales);
    EXPECT_EQ(*one.output_error, *three.output_error);
  }
}

TEST(Awq, IsNeverWorseThanRoundToNearestUnderItsMeasure) {
  Rng rng(9);
  for (const bool with_hessian : {true, false}) {
    const RowMatrix weight = test::random_matrix(32, 128, rng);
    auto inputs = test::statistics_of(test::random_inputs(300, 128, rng));
    if (!with_hessian) inputs.hessian.reset();
    const Quantised awq = quantise(test::view(weight), groups(3, 64), Method::awq, &inputs);
    const Quantised rtn = quantise(test::view(weight), groups(3, 64));
    EXPECT_EQ(*awq.output_error, output_error(test::view(weight), awq, inputs));
    EXPECT_NEAR(*awq.rtn_output_error / output_error(test::view(weight), rtn, inputs), 1, 1e-9);
    EXPECT_LT(*awq.output_error, 0.9 * *awq.rtn_output_error);  // large channels are there to find
  }
}

TEST(Quantise, TensorGranularityHasOneScale) {
  Rng rng(10);
  const RowMatrix weight = test::random_matrix(70, 33, rng);
  const Quantised q =
      quantise(test::view(weight), {.bitwidth = 8, .granularity = Granularity::tensor});
  ASSERT_EQ(q.scales.size(), 1u);
  EXPECT_FLOAT_EQ(q.scales[0], weight.cwiseAbs().maxCoeff() / 127);
  EXPECT_LE(weight_error(test::view(weight), q).max_error, q.scales[0] / 2 * (1 + 1e-5));
}

TEST(Quantise, RefusesWhatItCannotDo) {
  Rng rng(11);
  RowMatrix weight = test::random_matrix(4, 32, rng);
  const auto inputs = test::statistics_of(test::random_inputs(10, 32, rng));
  const auto other = test::statistics_of(test::random_inputs(10, 31, rng));
  const auto refused = [&](const std::vector<std::string>& parts, const Scheme& scheme,
                           Method method, const LinearStatistics* statistics,
                           ErrorCode code = ErrorCode::invalid_argument) {
    expect_error(code, parts, [&] { quantise(test::view(weight), scheme, method, statistics); });
  };
  refused({"bitwidth is 5", "3, 4 or 8"}, groups(5, 32), Method::rtn, nullptr,
          ErrorCode::out_of_range);
  refused({"group_size is 0"}, groups(4, 0), Method::rtn, nullptr, ErrorCode::out_of_range);
  refused({"gptq needs calibration"}, groups(4, 32), Method::gptq, nullptr);
  refused({"awq needs calibration"}, groups(4, 32), Method::awq, nullptr);
  refused({"31 input features", "32 columns"}, groups(4, 32), Method::gptq, &other);
  auto without = inputs;
  without.hessian.reset();
  refused({"needs the Hessian"}, groups(4, 32), Method::gptq, &without);
  Scheme scheme = groups(4, 32);
  scheme.rounding = kernels::Rounding::stochastic;
  refused({"rounds to the nearest"}, scheme, Method::gptq, &inputs);
  scheme = groups(4, 32);
  scheme.act_order = ActOrder::group;
  refused({"act_order"}, scheme, Method::rtn, nullptr);
  scheme = groups(4, 32);
  scheme.scale_type = kernels::Real::f16;
  weight(2, 3) = 1e9f;
  refused({"row 2", "does not fit"}, scheme, Method::rtn, nullptr);
  weight(2, 3) = std::numeric_limits<float>::quiet_NaN();
  refused({"weight [2, 3] is nan"}, groups(4, 32), Method::rtn, nullptr);
  expect_error(ErrorCode::invalid_argument, {"the weight is [0, 4]"}, [] {
    quantise({nullptr, 0, 4}, groups(4, 32));
  });
  expect_error(ErrorCode::invalid_argument, {"at least one token"},
               [] { statistics_of(nullptr, 0, 4, true); });
}

}  // namespace
}  // namespace tessera::quant::quantise_test
