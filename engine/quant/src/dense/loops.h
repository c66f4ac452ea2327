// Included once by baseline.cpp and once by avx2.cpp, which says what `Eigen` and TESSERA_DENSE
// are called there: two compilations of the same templates must not share their names.
#include <Eigen/Core>

#include "dense.h"

namespace tessera::quant::dense {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using View = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstView = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

ConstView view(ConstBlock b) { return {b.data, b.rows, b.columns, Eigen::OuterStride<>(b.stride)}; }

void multiply_add(float alpha, ConstBlock a, Op op_a, ConstBlock b, Op op_b, Block c) {
  View out(c.data, c.rows, c.columns, Eigen::OuterStride<>(c.stride));
  if (op_a == Op::as_is && op_b == Op::as_is) {
    out.noalias() += alpha * view(a) * view(b);
  } else if (op_a == Op::as_is) {
    out.noalias() += alpha * view(a) * view(b).transpose();
  } else if (op_b == Op::as_is) {
    out.noalias() += alpha * view(a).transpose() * view(b);
  } else {
    out.noalias() += alpha * view(a).transpose() * view(b).transpose();
  }
}

// Of the group that begins at column `first`, from its weights as they are by now.
void choose_scale(const RowBlock& row, std::int64_t first) {
  const std::int32_t group = row.group[first];
  float low = row.weights[first], high = low;
  for (std::int64_t k = first + 1; k < row.width && row.group[k] == group; ++k) {
    low = row.weights[k] < low ? row.weights[k] : low;
    high = row.weights[k] > high ? row.weights[k] : high;
  }
  kernels::scale_of_range(low, high, row.format, row.scales + group, row.zero_points + group);
}

void compensate(const RowBlock& row) {
  for (std::int64_t j = 0; j < row.width; ++j) {
    const std::int32_t group = row.group[j];
    if (row.choose_scales && (j == 0 || row.group[j - 1] != group)) choose_scale(row, j);
    const float scale = row.scales[group];
    const int zero_point = row.zero_points[group];
    const float weight = row.weights[j];
    row.codes[j] =
        kernels::code_of(weight, scale, zero_point, row.format, kernels::Rounding::nearest, 0.0f);
    const float value = scale * static_cast<float>(row.codes[j] - zero_point);
    const float* inverse = row.inverse + j * row.width;
    const float error = (weight - value) / inverse[j];
    for (std::int64_t k = j + 1; k < row.width; ++k) row.weights[k] -= error * inverse[k];
    row.weights[j] = value;
    row.errors[j] = error;
  }
}

}  // namespace

const Functions TESSERA_DENSE{multiply_add, compensate};

}  // namespace tessera::quant::dense
