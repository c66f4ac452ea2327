#include <fmt/format.h>

#include <Eigen/Core>
#include <cmath>

#include "dense/dense.h"
#include "tessera/core/error.h"
#include "tessera/kernels/parallel.h"
#include "tessera/quant/statistics.h"

namespace tessera::quant {
namespace {

using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Eigen::MatrixXf hessian_of(const float* inputs, std::int64_t num_tokens, std::int64_t k) {
  constexpr std::int64_t kHessianRows = 256;  // rows of the Hessian
  RowMatrix sum = RowMatrix::Zero(k, k);
  kernels::for_slices(kernels::hardware_threads(), k, kHessianRows, [&](auto first, auto last) {
    dense::functions().multiply_add(1 / static_cast<float>(num_tokens),
                                    {inputs + first, num_tokens, last - first, k},
                                    dense::Op::transposed, {inputs, num_tokens, k, k},
                                    dense::Op::as_is, {sum.data() + first * k, last - first, k, k});
  });
  // Both halves are the same sums, in another order perhaps.
  sum.triangularView<Eigen::StrictlyLower>() = sum.transpose();
  return sum;
}

}  // namespace

Eigen::VectorXf LinearStatistics::mean_square() const { return variance + mean.cwiseProduct(mean); }

LinearStatistics statistics_of(const float* inputs, std::int64_t num_tokens,
                               std::int64_t in_features, bool with_hessian) {
  if (num_tokens < 1 || in_features < 1) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the inputs are [{}, {}]; at least one token of one feature is needed",
                            num_tokens, in_features),
                "activations");
  }
  const Eigen::Map<const RowMatrix> x(inputs, num_tokens, in_features);
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(in_features), abs_sum = sum, squares = sum;
  LinearStatistics out;
  out.num_tokens = num_tokens;
  out.abs_max = Eigen::VectorXf::Zero(in_features);
  for (std::int64_t t = 0; t < num_tokens; ++t) {
    const Eigen::ArrayXd row = x.row(t).cast<double>().transpose().array();
    if (!row.allFinite()) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the inputs of token {} are not all finite", t), "activations");
    }
    sum += row;
    abs_sum += row.abs();
    out.abs_max = out.abs_max.cwiseMax(x.row(t).transpose().cwiseAbs());
    const double mean = row.mean();
    out.token_variance += (row - mean).square().mean();
    out.token_mean_square += row.square().mean();
  }
  const double count = static_cast<double>(num_tokens);
  const Eigen::ArrayXd mean = sum / count;
  for (std::int64_t t = 0; t < num_tokens; ++t)
    squares += (x.row(t).cast<double>().transpose().array() - mean).square();
  out.mean = mean.cast<float>().matrix();
  out.abs_mean = (abs_sum / count).cast<float>().matrix();
  out.variance = (squares / count).cast<float>().matrix();
  out.token_variance /= count;
  out.token_mean_square /= count;
  if (with_hessian) out.hessian = hessian_of(inputs, num_tokens, in_features);
  return out;
}

}  // namespace tessera::quant
