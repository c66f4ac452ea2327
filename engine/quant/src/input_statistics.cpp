#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dense/dense.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"
#include "tessera/quant/statistics.h"

namespace tessera::quant {
namespace {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMap = Eigen::Map<const RowMatrix>;

/// sum += X^T X, its lower half by blocks: row i up to the end of i's block of columns.
void add_products(const float* inputs, std::int64_t num_tokens, std::int64_t k, float* sum) {
  constexpr std::int64_t kHessianRows = 256;  // rows of the Hessian
  kernels::for_slices(kernels::hardware_threads(), k, kHessianRows, [&](auto first, auto last) {
    dense::functions().multiply_add(1, {inputs + first, num_tokens, last - first, k},
                                    dense::Op::transposed, {inputs, num_tokens, last, k},
                                    dense::Op::as_is, {sum + first * k, last - first, last, k});
  });
}

}  // namespace

Eigen::VectorXf LinearStatistics::mean_square() const { return variance + mean.cwiseProduct(mean); }

InputSums::InputSums(std::int64_t in_features, bool with_hessian) {
  if (in_features < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("inputs of {} features; at least one is needed", in_features),
                "activations");
  }
  mean_ = abs_sum_ = squares_ = Eigen::ArrayXd::Zero(in_features);
  abs_max_ = Eigen::VectorXf::Zero(in_features);
  if (with_hessian) products_ = Eigen::MatrixXf::Zero(in_features, in_features);
}

void InputSums::add(const float* inputs, std::int64_t num_tokens) {
  const std::int64_t k = mean_.size();
  const RowMap x(inputs, num_tokens, k);
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(k);
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const Eigen::ArrayXd row = x.row(t).cast<double>().transpose().array();
    if (!row.allFinite()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the inputs of token {} are not all finite", num_tokens_ + t),
                  "activations");
    }
    sum += row;
    abs_sum_ += row.abs();
    abs_max_ = abs_max_.cwiseMax(x.row(t).transpose().cwiseAbs());
    token_variance_ += (row - row.mean()).square().mean();
    token_mean_square_ += row.square().mean();
  }
  if (num_tokens < 1) return;
  // Chan, Golub and LeVeque (1979): deviations from the batch's own mean, then those of the means.
  const double count = static_cast<double>(num_tokens), before = static_cast<double>(num_tokens_);
  const Eigen::ArrayXd mean = sum / count, delta = mean - mean_;
  for (std::int64_t t = 0; t < num_tokens; ++t)
    squares_ += (x.row(t).cast<double>().transpose().array() - mean).square();
  squares_ += delta.square() * (before * count / (before + count));
  mean_ += delta * (count / (before + count));
  num_tokens_ += num_tokens;
  if (products_) add_products(inputs, num_tokens, k, products_->data());
}

LinearStatistics InputSums::statistics() && {
  if (num_tokens_ < 1) {
    throw Error(ErrorCode::invalid_argument,
                "the inputs have no tokens; at least one token is needed", "activations");
  }
  const double count = static_cast<double>(num_tokens_);
  LinearStatistics out;
  out.num_tokens = num_tokens_;
  out.mean = mean_.cast<float>().matrix();
  out.variance = (squares_ / count).cast<float>().matrix();
  out.abs_mean = (abs_sum_ / count).cast<float>().matrix();
  out.abs_max = std::move(abs_max_);
  out.token_variance = token_variance_ / count;
  out.token_mean_square = token_mean_square_ / count;
  if (products_) {
    // What was summed as rows are columns to Eigen: the upper half, and the lower is its mirror.
    products_->triangularView<Eigen::StrictlyLower>() = products_->transpose();
    *products_ /= static_cast<float>(count);
    out.hessian = std::move(products_);
  }
  return out;
}

LinearStatistics statistics_of(const float* inputs, std::int64_t num_tokens,
                               std::int64_t in_features, bool with_hessian) {
  InputSums sums(in_features, with_hessian);
  sums.add(inputs, num_tokens);
  return std::move(sums).statistics();
}

}  // namespace tessera::quant
