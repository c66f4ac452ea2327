#pragma once

#include "../device/real.cuh"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::cuda {

/// The groups of a matrix.
inline Segments segments_of(Matrix m, std::int64_t group_size) {
  const std::int64_t size = group_size == 0 || group_size > m.columns ? m.columns : group_size;
  return {m.data, m.type, m.rows, m.columns, m.stride, size, num_groups(m.columns, group_size)};
}

inline unsigned blocks_of(std::int64_t count, std::int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

inline bool is_aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// Segments up to this long are a warp's work, longer ones a block's.
inline constexpr std::int64_t kWarpSegment = 2048;

/// A grid has at most 2^31 - 1 blocks, each of at least eight elements here.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 33;

}  // namespace tessera::kernels::cuda
