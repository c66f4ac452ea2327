#include "tessera/kernels/int8.h"

#include <cstring>

#include "check.h"
#include "tessera/kernels/gemm.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kBlock = kRowsPerBlock;

}  // namespace

Status quantise_rows(Matrix matrix, Rows rows, const std::uint8_t* is_outlier, std::int8_t* codes,
                     float* scale) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || codes == nullptr ||
      scale == nullptr) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const void* data = cpu::at(matrix.data, matrix.type, row * matrix.stride);
    cpu::chosen().quantise_row({data, matrix.type, matrix.columns}, is_outlier,
                               codes + row * matrix.columns, scale + row);
  }
  return Status::ok;
}

std::int64_t int8_weights_bytes(std::int64_t rows, std::int64_t columns) {
  if (!cpu::valid_shape(rows, columns)) return 0;
  return (rows + kBlock - 1) / kBlock * kBlock * ((columns + 3) / 4) * 4;
}

Status pack_int8_weights(const std::int8_t* codes, std::int64_t num_rows, std::int64_t columns,
                         Rows rows, std::int8_t* packed) {
  if (codes == nullptr || !cpu::valid_shape(num_rows, columns) ||
      !cpu::valid_blocks(rows, num_rows, kBlock) || !cpu::aligned(packed)) {
    return Status::invalid_argument;
  }
  const std::int64_t quads = (columns + 3) / 4;
  for (std::int64_t block = rows.first / kBlock; block * kBlock < rows.last; ++block) {
    std::int8_t* to = packed + block * kBlock * quads * 4;
    for (std::int64_t k = 0; k < columns; k += 4) {
      const auto count = static_cast<std::size_t>(columns - k < 4 ? columns - k : 4);
      for (std::int64_t lane = 0; lane < kBlock; ++lane, to += 4) {
        const std::int64_t row = block * kBlock + lane;
        std::memset(to, 0, 4);
        if (row < num_rows) std::memcpy(to, codes + row * columns + k, count);
      }
    }
  }
  return Status::ok;
}

Status int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
                 Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride) {
  if (codes == nullptr || scale == nullptr || !cpu::valid_shape(tokens, weights.columns) ||
      !cpu::valid_shape(weights.rows, weights.columns) || !cpu::aligned(weights.codes) ||
      weights.scale == nullptr || !cpu::valid_blocks(outputs, weights.rows, kBlock) ||
      out == nullptr || out_stride < weights.rows || !cpu::valid_shape(tokens, out_stride)) {
    return Status::invalid_argument;
  }
  if (weights.columns > kMaxInt8Columns) return Status::unsupported;
  cpu::chosen().int8_gemm({codes, scale, tokens, weights, outputs, out, out_stride});
  return Status::ok;
}

Status find_outlier_columns(Matrix x, float threshold, std::uint8_t* is_outlier,
                            std::int64_t* num_outliers) {
  if (!cpu::valid(x) || !(threshold > 0) || is_outlier == nullptr || num_outliers == nullptr) {
    return Status::invalid_argument;
  }
  std::memset(is_outlier, 0, static_cast<std::size_t>(x.columns));
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t column = 0; column < x.columns; ++column) {
      const float value = cpu::load(x.data, x.type, row * x.stride + column);
      if (value >= threshold || value <= -threshold) is_outlier[column] = 1;
    }
  }
  *num_outliers = 0;
  for (std::int64_t column = 0; column < x.columns; ++column) *num_outliers += is_outlier[column];
  return Status::ok;
}

Status add_outlier_product(Matrix x, const std::uint8_t* is_outlier, Matrix weights, Rows outputs,
                           float* out, std::int64_t out_stride) {
  if (!cpu::valid(x) || is_outlier == nullptr || !cpu::valid(weights) ||
      x.columns != weights.columns || !cpu::valid(outputs, weights.rows) || out == nullptr ||
      out_stride < weights.rows || !cpu::valid_shape(x.rows, out_stride)) {
    return Status::invalid_argument;
  }
  // A handful of columns of thousands: what matters is to skip the others.
  for (std::int64_t column = 0; column < x.columns; ++column) {
    if (is_outlier[column] == 0) continue;
    for (std::int64_t token = 0; token < x.rows; ++token) {
      const float value = cpu::load(x.data, x.type, token * x.stride + column);
      for (std::int64_t row = outputs.first; row < outputs.last; ++row) {
        out[token * out_stride + row] +=
            value * cpu::load(weights.data, weights.type, row * weights.stride + column);
      }
    }
  }
  return Status::ok;
}

}  // namespace tessera::kernels
