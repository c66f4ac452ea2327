#include "tessera/kernels/dense.h"

#include "check.h"
#include "packer.h"
#include "versions.h"

namespace tessera::kernels {

std::int64_t dense_weights_bytes(std::int64_t rows, std::int64_t columns, Real type) {
  if (!cpu::valid_shape(rows, columns) || !cpu::valid(type)) return 0;
  return (rows + kRowsPerBlock - 1) / kRowsPerBlock * kRowsPerBlock * columns * size_of(type);
}

Status pack_dense_weights(Matrix weights, Real type, Rows rows, void* data) {
  if (!cpu::valid(weights) || !cpu::valid(type) ||
      !cpu::valid_blocks(rows, weights.rows, kRowsPerBlock) || !cpu::aligned(data)) {
    return Status::invalid_argument;
  }
  for (std::int64_t block = rows.first; block < rows.last; block += kRowsPerBlock) {
    for (std::int64_t lane = 0; lane < kRowsPerBlock; ++lane) {
      const std::int64_t row = block + lane, from = row * weights.stride;
      for (std::int64_t c = 0; c < weights.columns; ++c) {
        const bool there = row < weights.rows;
        const float value = there ? cpu::load(weights.data, weights.type, from + c) : 0;
        cpu::put_real(data, type, block * weights.columns + c * kRowsPerBlock + lane, value);
      }
    }
  }
  return Status::ok;
}

Status dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride) {
  if (!cpu::valid_shape(weights.rows, weights.columns) || !cpu::valid(weights.type) ||
      !cpu::aligned(weights.data) ||
      !cpu::valid_product(activations, weights.rows, weights.columns, outputs, out, out_stride)) {
    return Status::invalid_argument;
  }
  cpu::chosen().dense_gemm(activations, weights, outputs, out, out_stride);
  return Status::ok;
}

}  // namespace tessera::kernels
