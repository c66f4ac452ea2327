#include "tessera/kernels/dense.h"

#include <cstring>

#include "check.h"
#include "packer.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

// Rows of a block become its columns, their bits as they are; `from` need not be aligned.
template <class Bits>
void transpose(const Matrix& weights, std::int64_t block, void* data) {
  const char* from = static_cast<const char*>(weights.data) +
                     block * weights.stride * static_cast<std::int64_t>(sizeof(Bits));
  const std::size_t stride = static_cast<std::size_t>(weights.stride) * sizeof(Bits);
  Bits* to = static_cast<Bits*>(data) + block * weights.columns;
  for (std::int64_t c = 0; c < weights.columns; ++c, from += sizeof(Bits)) {
    for (std::size_t lane = 0; lane < kRowsPerBlock; ++lane) {
      std::memcpy(to++, from + lane * stride, sizeof(Bits));
    }
  }
}

void pack_block(const Matrix& weights, Real type, std::int64_t block, void* data) {
  for (std::int64_t lane = 0; lane < kRowsPerBlock; ++lane) {
    const std::int64_t row = block + lane, from = row * weights.stride;
    for (std::int64_t c = 0; c < weights.columns; ++c) {
      const bool there = row < weights.rows;
      const float value = there ? cpu::load(weights.data, weights.type, from + c) : 0;
      cpu::put_real(data, type, block * weights.columns + c * kRowsPerBlock + lane, value);
    }
  }
}

}  // namespace

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
    if (weights.type != type || weights.rows - block < kRowsPerBlock) {
      pack_block(weights, type, block, data);
    } else if (type == Real::f32) {
      transpose<std::uint32_t>(weights, block, data);
    } else {
      transpose<std::uint16_t>(weights, block, data);
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
