#pragma once

#include <cstdint>

#include "tessera/kernels/attention.h"

// What one piece of paged_attention() works on.
namespace tessera::kernels::cpu {

/// Rows of a task: the query heads of a KV head for one token after another, [token][head of the
/// group], in tiles of this many.
inline constexpr std::int64_t kTaskRows = 48;

/// A tile of rows of one sequence and KV head. Arguments have been checked.
struct AttentionTask {
  const float* queries;  ///< of the sequence's first query
  std::int64_t stride;
  float* out;
  std::int64_t out_stride;
  AttentionForm form;
  KvBlocks blocks;
  const std::int32_t* block_table;  ///< of the sequence
  std::int64_t first_position;      ///< of the sequence's first query
  std::int64_t kv_head;
  Rows rows;

  TESSERA_KERNELS_INLINE std::int64_t group() const { return form.num_heads / blocks.num_kv_heads; }
  TESSERA_KERNELS_INLINE std::int64_t head(std::int64_t row) const {
    return kv_head * group() + row % group();
  }
  TESSERA_KERNELS_INLINE std::int64_t position(std::int64_t row) const {
    return first_position + row / group();
  }
  /// The first position that a row sees; the last is its own.
  TESSERA_KERNELS_INLINE std::int64_t first_key(std::int64_t row) const {
    const std::int64_t own = position(row);
    const std::int64_t in_window = form.window == 0 ? 0 : own + 1 - form.window;
    const std::int64_t in_chunk = form.chunk == 0 ? 0 : own - own % form.chunk;
    return in_window > in_chunk ? in_window : in_chunk;
  }
  TESSERA_KERNELS_INLINE const float* query(std::int64_t row) const {
    return queries + row / group() * stride + head(row) * blocks.head_dim;
  }
  TESSERA_KERNELS_INLINE float* output(std::int64_t row) const {
    return out + row / group() * out_stride + head(row) * blocks.head_dim;
  }
  /// Token `position` of the sequence, counted in tokens of [num_blocks][num_kv_heads][block_size].
  TESSERA_KERNELS_INLINE std::int64_t token(std::int64_t position) const {
    const std::int64_t block = block_table[position / blocks.block_size];
    return (block * blocks.num_kv_heads + kv_head) * blocks.block_size +
           position % blocks.block_size;
  }
};

TESSERA_KERNELS_INLINE constexpr std::int64_t size_of(KvType type) {
  return type == KvType::f32 ? 4 : type == KvType::int8 ? 1 : 2;
}

}  // namespace tessera::kernels::cpu
