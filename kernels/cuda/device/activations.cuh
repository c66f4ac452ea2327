#pragma once

#include "real.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kActivationThreads = 256;

/// to[row][column] = x[row][column] / divisor[column] (null: 1), rounded to `type`.
///
/// grid [rows * columns / kActivationThreads], block [kActivationThreads]; `to` [rows][columns].
TESSERA_GLOBAL void round_activations_kernel(const float* x, std::int64_t rows,
                                             std::int64_t columns, std::int64_t stride,
                                             const float* divisor, Real type, void* to) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kActivationThreads + threadIdx.x;
  if (at >= rows * columns) return;
  const std::int64_t column = at % columns;
  float value = x[at / columns * stride + column];
  if (divisor != nullptr) value /= divisor[column];
  if (type == Real::f32) {
    static_cast<float*>(to)[at] = value;
  } else {
    static_cast<std::uint16_t*>(to)[at] =
        type == Real::f16 ? f16_of_f32(value) : f32_to_bf16(value);
  }
}

}  // namespace tessera::kernels::cuda
