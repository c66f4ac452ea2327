#pragma once

#include <cstdint>

#include "tessera/kernels/gemm.h"
#include "tessera/kernels/quantise.h"
#include "tessera/kernels/types.h"

// What every entry point asks of its arguments.
namespace tessera::kernels::cpu {

/// Products of sizes stay below this, so that no index overflows.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

inline bool valid(Real type) {
  return type == Real::f32 || type == Real::f16 || type == Real::bf16;
}

inline bool valid_shape(std::int64_t rows, std::int64_t columns) {
  return rows > 0 && columns > 0 && columns <= kMaxElements / rows;
}

inline bool valid(Matrix m) {
  return m.data != nullptr && valid(m.type) && valid_shape(m.rows, m.columns) &&
         m.stride >= m.columns && m.stride <= kMaxElements / m.rows;
}

inline bool valid(Rows slice, std::int64_t rows) {
  return slice.first >= 0 && slice.first < slice.last && slice.last <= rows;
}

/// A slice of whole blocks of `block` rows; only the last block may be incomplete.
inline bool valid_blocks(Rows slice, std::int64_t rows, std::int64_t block) {
  return valid(slice, rows) && slice.first % block == 0 &&
         (slice.last == rows || slice.last % block == 0);
}

/// Not null, and at the start of a cache line.
inline bool aligned(const void* data) {
  return data != nullptr && reinterpret_cast<std::uintptr_t>(data) % 64 == 0;
}

/// Activations [m, columns], weights [rows, columns] and outputs [m][out_stride] fit together.
inline bool valid_product(Matrix activations, std::int64_t rows, std::int64_t columns, Rows outputs,
                          const float* out, std::int64_t out_stride) {
  return valid(activations) && activations.columns == columns &&
         valid_blocks(outputs, rows, kRowsPerBlock) && out != nullptr && out_stride >= rows;
}

inline bool valid_bitwidth(int bitwidth) { return bitwidth == 3 || bitwidth == 4 || bitwidth == 8; }

inline bool valid(QuantFormat format) {
  return valid_bitwidth(format.bitwidth) && format.group_size >= 0 && valid(format.scale_type);
}

}  // namespace tessera::kernels::cpu
