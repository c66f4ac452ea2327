#pragma once

#include <cmath>

#include "check.h"
#include "tessera/kernels/attention.h"

// What attention asks of its arguments, on every device.
namespace tessera::kernels::cpu {

inline bool valid_shape(const KvBlocks& b) {
  const bool known = b.type == KvType::f32 || b.type == KvType::f16 || b.type == KvType::bf16 ||
                     b.type == KvType::int8;
  return known && valid_shape(b.num_blocks, b.block_size) &&
         valid_shape(b.num_kv_heads, b.head_dim) &&
         valid_shape(b.num_blocks * b.block_size, b.num_kv_heads * b.head_dim);
}

inline bool valid(const KvBlocks& b) {
  return valid_shape(b) && b.keys != nullptr && b.values != nullptr &&
         (b.type != KvType::int8 || (b.key_scale != nullptr && b.value_scale != nullptr));
}

inline bool valid(const AttentionForm& form, const KvBlocks& blocks) {
  return form.num_heads > 0 && form.num_heads % blocks.num_kv_heads == 0 &&
         valid_shape(form.num_heads, blocks.head_dim) && std::isfinite(form.scale) &&
         form.softcap >= 0 && std::isfinite(form.softcap) && form.window >= 0 && form.chunk >= 0;
}

/// Its tables are there; what is in them is another question.
inline bool has_tables(const RaggedBatch& batch) {
  return batch.num_sequences > 0 && batch.query_start != nullptr &&
         batch.context_tokens != nullptr && batch.block_table != nullptr &&
         valid_shape(batch.num_sequences, batch.max_blocks);
}

}  // namespace tessera::kernels::cpu
