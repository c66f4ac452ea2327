#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "calibration.h"
#include "tessera/kernels/quantise.h"
#include "tessera/linear/linear.h"

// What the tests of products share.
namespace tessera::linear {

using test::RowMatrix;

inline std::unique_ptr<Linear> make(const RowMatrix& weight, const LinearForm& form,
                                    const quant::LinearStatistics* inputs = nullptr) {
  return make_linear({weight.data(), static_cast<std::size_t>(weight.size())}, weight.rows(),
                     weight.cols(), form, inputs, 2);
}

inline RowMatrix values_of(const Linear& linear) {
  RowMatrix values(linear.out_features(), linear.in_features());
  linear.dequantise(0, linear.out_features(), values.data());
  return values;
}

/// The numbers that plain codes stand for.
inline RowMatrix values_of(const LinearCodes& codes) {
  const auto at = [](const auto& numbers, std::int64_t i) {
    return numbers[static_cast<std::size_t>(i)];
  };
  const std::int64_t group_size =
      codes.format.group_size == 0 ? codes.columns : codes.format.group_size;
  const std::int64_t groups = kernels::num_groups(codes.columns, group_size);
  RowMatrix values(codes.rows, codes.columns);
  for (std::int64_t r = 0; r < codes.rows; ++r) {
    for (std::int64_t c = 0; c < codes.columns; ++c) {
      const std::int64_t group = r * groups + c / group_size;
      const int steps = at(codes.codes, r * codes.columns + c) - at(codes.zero_points, group);
      values(r, c) = at(codes.scales, group) * static_cast<float>(steps);
      if (!codes.input_scales.empty()) values(r, c) /= at(codes.input_scales, c);
    }
  }
  return values;
}

/// The product; rows of `out` are `gap` numbers longer than they need to be.
inline RowMatrix product(const Linear& linear, const RowMatrix& x, int num_threads = 1,
                         std::int64_t gap = 0) {
  constexpr float kUntouched = -12345;
  RowMatrix out = RowMatrix::Constant(x.rows(), linear.out_features() + gap, kUntouched);
  linear.apply(x.data(), x.cols(), x.rows(), out.data(), out.cols(), num_threads);
  EXPECT_TRUE((out.rightCols(gap).array() == kUntouched).all());
  return out.leftCols(linear.out_features());
}

/// A tensor [rows, columns] as the matrix of layer 3 that it is.
inline weights::LinearWeight part_of(const weights::TensorInfo& tensor, const std::string& linear) {
  return {.layer_index = 3,
          .linear = linear,
          .tensor = &tensor,
          .num_rows = tensor.shape[0],
          .in_features = tensor.shape[1],
          .stored_rows = tensor.shape[0],
          .block_rows = tensor.shape[0],
          .block_stride = tensor.shape[0]};
}

/// Squared error against the product in double with `weight`, over its squared size.
inline double nmse(const RowMatrix& found, const RowMatrix& x, const RowMatrix& weight) {
  const Eigen::MatrixXd exact = x.cast<double>() * weight.cast<double>().transpose();
  return (found.cast<double>() - exact).squaredNorm() / exact.squaredNorm();
}

inline LinearForm codes(int bitwidth, int activation_bitwidth = 16) {
  LinearForm form;
  form.bitwidth = bitwidth;
  form.scheme.group_size = 32;
  form.activation_bitwidth = activation_bitwidth;
  return form;
}

inline LinearForm int8(double outlier_threshold = 6) {
  LinearForm form;
  form.bitwidth = 8;
  form.int8 = true;
  form.outlier_threshold = outlier_threshold;
  return form;
}

inline LinearForm dense(kernels::Real type) {
  LinearForm form;
  form.dtype = type;
  return form;
}

inline LinearForm stored(int activation_bitwidth = 16) {
  LinearForm form;
  form.as_stored = true;
  form.activation_bitwidth = activation_bitwidth;
  return form;
}

// Sums in f32 of some hundred products, each rounded by at most 2^-24 of the sum.
inline constexpr double kF32Nmse = 1e-11;

}  // namespace tessera::linear
