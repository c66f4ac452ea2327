// Quantisers on matrices of any shape and scheme.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "calibration.h"

namespace tessera::quant::quant_property_test {
namespace {

using test::RowMatrix;

Scheme any_scheme() {
  return {
      .bitwidth = *rc::gen::element(3, 4, 8),
      .symmetric = *rc::gen::arbitrary<bool>(),
      .granularity =
          *rc::gen::element(Granularity::tensor, Granularity::channel, Granularity::group),
      .group_size = *rc::gen::inRange<std::int64_t>(1, 80),
      .scale_type = *rc::gen::element(kernels::Real::f32, kernels::Real::f16, kernels::Real::bf16)};
}

struct Case {
  Rng rng{static_cast<std::uint64_t>(*rc::gen::inRange(0, 1 << 30))};
  RowMatrix weight = test::random_matrix(*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 150), rng);
  LinearStatistics inputs =
      test::statistics_of(test::random_inputs(*rc::gen::inRange(1, 200), weight.cols(), rng));
};

RC_GTEST_PROP(QuantProperty, RoundToNearestIsWithinHalfAStep, ()) {
  Case c;
  const Scheme scheme = any_scheme();
  const Quantised q = quantise(test::view(c.weight), scheme);
  const RowMatrix values = test::values_of(q);
  for (std::int64_t r = 0; r < q.rows; ++r) {
    for (std::int64_t j = 0; j < q.columns; ++j) {
      const float scale = q.scales[static_cast<std::size_t>(q.scale_index(r, j))];
      // An asymmetric range whose ends are no codes clips by up to half a step more.
      const float bound = scheme.symmetric ? 0.5f : 1.0f;
      RC_ASSERT(std::abs(values(r, j) - c.weight(r, j)) <= scale * bound * 1.0001f);
    }
  }
}

RC_GTEST_PROP(QuantProperty, GptqIsNeverWorseThanRoundToNearest, ()) {
  Case c;
  Scheme scheme = any_scheme();
  scheme.act_order = *rc::gen::element(ActOrder::none, ActOrder::weight, ActOrder::group);
  const Quantised gptq = quantise(test::view(c.weight), scheme, Method::gptq, &c.inputs);
  scheme.act_order = ActOrder::none;
  const Quantised rtn = quantise(test::view(c.weight), scheme);
  // Groups of one weight leave no error but the rounding of floats, a part in 2^23 of the weights.
  const double rounding = std::ldexp(c.weight.cast<double>().squaredNorm(), -46) *
                          c.inputs.hessian->cast<double>().trace();
  RC_ASSERT(output_error(test::view(c.weight), gptq, c.inputs) <=
            output_error(test::view(c.weight), rtn, c.inputs) * (1 + 1e-9) + rounding);
  RC_ASSERT(gptq.dequantised().size() == static_cast<std::size_t>(c.weight.size()));
}

RC_GTEST_PROP(QuantProperty, AwqIsNeverWorseThanRoundToNearest, ()) {
  Case c;
  const Scheme scheme = any_scheme();
  if (*rc::gen::arbitrary<bool>()) c.inputs.hessian.reset();
  const Quantised awq = quantise(test::view(c.weight), scheme, Method::awq, &c.inputs);
  RC_ASSERT(*awq.output_error <= *awq.rtn_output_error);
}

// The order of input channels is a matter of storage: act-order finds its own.
RC_GTEST_PROP(QuantProperty, ActOrderFollowsThePermutationOfItsInputs, ()) {
  Case c;
  const std::int64_t n = c.weight.cols();
  std::vector<int> to(static_cast<std::size_t>(n));
  std::iota(to.begin(), to.end(), 0);
  for (std::size_t i = to.size(); i > 1; --i)
    std::swap(to[i - 1], to[static_cast<std::size_t>(c.rng.integer(0, static_cast<int>(i) - 1))]);
  RowMatrix weight(c.weight.rows(), n);
  LinearStatistics inputs = c.inputs;
  for (std::int64_t j = 0; j < n; ++j) {
    const int a = to[static_cast<std::size_t>(j)];
    weight.col(a) = c.weight.col(j);
    for (std::int64_t i = 0; i < n; ++i)
      (*inputs.hessian)(to[static_cast<std::size_t>(i)], a) = (*c.inputs.hessian)(i, j);
  }
  // Which of two channels with equal inputs comes first is a matter of place.
  const Eigen::VectorXf sizes = c.inputs.hessian->diagonal();
  std::vector<float> sorted(sizes.begin(), sizes.end());
  std::ranges::sort(sorted);
  RC_PRE(std::ranges::adjacent_find(sorted) == sorted.end());
  Scheme scheme = any_scheme();
  scheme.act_order = ActOrder::group;
  const Quantised here = quantise(test::view(c.weight), scheme, Method::gptq, &c.inputs);
  const Quantised there = quantise(test::view(weight), scheme, Method::gptq, &inputs);
  // Round-to-nearest groups by place; where it won in one, there is nothing to compare.
  if (here.method != Method::gptq || there.method != Method::gptq) return;
  const RowMatrix a = test::values_of(here), b = test::values_of(there);
  for (std::int64_t j = 0; j < n; ++j)
    RC_ASSERT(a.col(j) == b.col(to[static_cast<std::size_t>(j)]));
}

}  // namespace
}  // namespace tessera::quant::quant_property_test
