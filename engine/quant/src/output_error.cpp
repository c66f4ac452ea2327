#include <Eigen/Core>

#include "tessera/quant/quantise.h"

namespace tessera::quant {
namespace {

using RowMatrixOfDoubles = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t kRows = 64, kColumns = 256;  // of a tile in double

RowMatrixOfDoubles difference(MatrixView weight, const Quantised& quantised, std::int64_t first,
                              std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count * weight.columns));
  quantised.dequantise(first, first + count, values.data());
  RowMatrixOfDoubles d(count, weight.columns);
  for (std::int64_t i = 0; i < d.size(); ++i) {
    d.data()[i] = static_cast<double>(weight.row(first)[i]) - values[static_cast<std::size_t>(i)];
  }
  return d;
}

}  // namespace

double output_error(MatrixView weight, const Quantised& quantised, const LinearStatistics& inputs) {
  double sum = 0;
  for (std::int64_t first = 0; first < weight.rows; first += kRows) {
    const std::int64_t count = std::min(kRows, weight.rows - first);
    const RowMatrixOfDoubles d = difference(weight, quantised, first, count);
    if (!inputs.hessian) {
      sum += (d.array().square().colwise().sum().transpose() *
              inputs.mean_square().cast<double>().array())
                 .sum();
      continue;
    }
    for (std::int64_t c = 0; c < weight.columns; c += kColumns) {
      const std::int64_t width = std::min(kColumns, weight.columns - c);
      const Eigen::MatrixXd h = inputs.hessian->middleCols(c, width).cast<double>();
      sum += (d * h).cwiseProduct(d.middleCols(c, width)).sum();
    }
  }
  return sum;
}

}  // namespace tessera::quant
