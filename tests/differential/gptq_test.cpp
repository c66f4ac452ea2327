// GPTQ against the method as the paper writes it: the inverse Hessian in double, one column after
// the other, every later column updated at once.

#include <gtest/gtest.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "calibration.h"
#include "case_name.h"

namespace tessera::quant {

void PrintTo(const Scheme& scheme, std::ostream* stream) {
  *stream << scheme.bitwidth << (scheme.symmetric ? " bit symmetric, " : " bit asymmetric, ");
  if (scheme.granularity == Granularity::channel) *stream << "channels";
  if (scheme.granularity == Granularity::tensor) *stream << "tensor";
  if (scheme.granularity == Granularity::group) *stream << "groups of " << scheme.group_size;
  if (scheme.act_order == ActOrder::group) *stream << ", groups by activation";
  if (scheme.act_order == ActOrder::weight) *stream << ", weights by activation";
}

namespace gptq_test {
namespace {

using test::RowMatrix;

struct Plain {
  Scheme scheme;
  Eigen::MatrixXd weight;  // columns in the order in which they are quantised
  std::vector<Eigen::Index> order;

  // Scale and zero point of the weights of one row that share one.
  std::pair<double, double> scale_of(const Eigen::VectorXd& w) const {
    const double steps = std::ldexp(1, scheme.bitwidth) - 1;
    if (scheme.symmetric) {
      const double half = std::ldexp(1, scheme.bitwidth - 1);
      const double scale = w.cwiseAbs().maxCoeff() / (half - 1);
      return {scale == 0 ? 1 : scale, half};
    }
    const double low = std::min(w.minCoeff(), 0.0), high = std::max(w.maxCoeff(), 0.0);
    const double scale = high == low ? 1 : (high - low) / steps;
    return {scale, std::nearbyint(-low / scale)};
  }

  double value_of(double w, std::pair<double, double> s) const {
    const double low = scheme.symmetric ? 1 : 0, high = std::ldexp(1, scheme.bitwidth) - 1;
    const double code = std::clamp(std::nearbyint(w / s.first) + s.second, low, high);
    return s.first * (code - s.second);
  }

  std::int64_t group_of(Eigen::Index position) const {
    if (scheme.granularity != Granularity::group) return 0;
    const bool by_column = scheme.act_order == ActOrder::weight;
    return (by_column ? order[static_cast<std::size_t>(position)] : position) / scheme.group_size;
  }

  Eigen::VectorXd members(const Eigen::MatrixXd& w, Eigen::Index row, std::int64_t group) const {
    std::vector<double> found;
    for (Eigen::Index j = 0; j < w.cols(); ++j)
      if (group_of(j) == group) found.push_back(w(row, j));
    return Eigen::Map<Eigen::VectorXd>(found.data(), static_cast<Eigen::Index>(found.size()));
  }
};

RowMatrix plain_gptq(const RowMatrix& weight, const Scheme& scheme, const Eigen::MatrixXf& hessian,
                     double damping) {
  const Eigen::Index n = weight.cols();
  Plain plain{scheme, {}, std::vector<Eigen::Index>(static_cast<std::size_t>(n))};
  std::iota(plain.order.begin(), plain.order.end(), 0);
  if (scheme.act_order != ActOrder::none) {
    std::stable_sort(plain.order.begin(), plain.order.end(),
                     [&](auto a, auto b) { return hessian(a, a) > hessian(b, b); });
  }
  Eigen::MatrixXd w(weight.rows(), n), h(n, n);
  for (Eigen::Index j = 0; j < n; ++j) {
    const auto from = plain.order[static_cast<std::size_t>(j)];
    w.col(j) = weight.col(from).cast<double>();
    for (Eigen::Index i = 0; i < n; ++i)
      h(i, j) = hessian(plain.order[static_cast<std::size_t>(i)], from);
  }
  h.diagonal().array() += damping * hessian.diagonal().cast<double>().mean();
  const Eigen::MatrixXd inverse = h.inverse();
  const Eigen::MatrixXd u = Eigen::LLT<Eigen::MatrixXd>(inverse).matrixU();
  const Eigen::MatrixXd original = w;
  RowMatrix out(weight.rows(), n);
  const bool one = scheme.granularity == Granularity::tensor;
  const bool as_reached =
      scheme.granularity == Granularity::group && scheme.act_order != ActOrder::weight;
  for (Eigen::Index r = 0; r < w.rows(); ++r) {
    std::vector<std::pair<double, double>> scales(static_cast<std::size_t>(n), {0, 0});
    for (Eigen::Index j = 0; j < n; ++j) {
      auto& scale = scales[static_cast<std::size_t>(plain.group_of(j))];
      if (scale.first == 0)
        scale =
            plain.scale_of(one ? Eigen::VectorXd(original.reshaped())
                               : plain.members(as_reached ? w : original, r, plain.group_of(j)));
      const double value = plain.value_of(w(r, j), scale);
      const double error = (w(r, j) - value) / u(j, j);
      w.row(r).tail(n - j - 1) -= error * u.row(j).tail(n - j - 1);
      out(r, plain.order[static_cast<std::size_t>(j)]) = static_cast<float>(value);
    }
  }
  return out;
}

class GptqAgainstPaper : public testing::TestWithParam<Scheme> {};

TEST_P(GptqAgainstPaper, ChoosesTheSameCodes) {
  Rng rng(7);
  for (const auto& [rows, columns] : {std::pair{5, 40}, {17, 150}, {33, 300}}) {
    const RowMatrix weight = test::random_matrix(rows, columns, rng);
    const auto inputs = test::statistics_of(test::random_inputs(2 * columns, columns, rng));
    const Quantised found = quantise(test::view(weight), GetParam(), Method::gptq, &inputs, 2);
    ASSERT_EQ(found.method, Method::gptq);
    const RowMatrix expected = plain_gptq(weight, GetParam(), *inputs.hessian, found.damping);
    // A weight halfway between two codes may fall to either side in f32, and moves what follows in
    // its row; nearly all are the same, and the error is.
    const RowMatrix values = test::values_of(found);
    const auto close = ((values - expected).cwiseAbs().array() <= 1e-3).count();
    EXPECT_GE(static_cast<double>(close), 0.98 * static_cast<double>(weight.size()));
    const Eigen::MatrixXd d = (weight - expected).cast<double>();
    const double error = (d * inputs.hessian->cast<double>()).cwiseProduct(d).sum();
    EXPECT_NEAR(*found.output_error / error, 1, 0.02);
    EXPECT_LE(*found.output_error, *found.rtn_output_error);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, GptqAgainstPaper,
    testing::Values(
        Scheme{.bitwidth = 4, .group_size = 32},
        Scheme{.bitwidth = 3, .symmetric = false, .group_size = 128},
        Scheme{.bitwidth = 4, .group_size = 50}, Scheme{.bitwidth = 3, .group_size = 200},
        Scheme{.bitwidth = 8, .granularity = Granularity::channel},
        Scheme{.bitwidth = 4, .symmetric = false, .granularity = Granularity::tensor},
        Scheme{.bitwidth = 4, .group_size = 32, .act_order = ActOrder::group},
        Scheme{.bitwidth = 3, .group_size = 64, .act_order = ActOrder::weight},
        Scheme{.bitwidth = 4, .granularity = Granularity::channel, .act_order = ActOrder::weight}),
    test::case_name);

}  // namespace
}  // namespace gptq_test
}  // namespace tessera::quant
