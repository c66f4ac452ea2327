#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

enum class KvType { f32, f16, bf16, int8 };

/// Keys and values of one layer in blocks, the pages of Kwon et al., 2023, section 4:
///
///     keys, values            [num_blocks][num_kv_heads][block_size][head_dim]   of `type`
///     key_scale, value_scale  [num_blocks][num_kv_heads][block_size]             int8 only
///
/// int8 is symmetric with a scale per token and head, as quantise_rows() makes them (int8.h).
struct KvBlocks {
  void* keys;
  void* values;
  float* key_scale;    ///< null unless int8
  float* value_scale;  ///< null unless int8
  KvType type;
  std::int64_t num_blocks, block_size, num_kv_heads;
  std::int64_t head_dim;  ///< at most kMaxHeadDim
};

/// Larger ones are `unsupported`. The latents of DeepSeek are as wide as this.
inline constexpr std::int64_t kMaxHeadDim = 576;

/// Bytes of the keys (or of the values) of `blocks`, without scales; 0 where the shape is not
/// valid.
std::int64_t kv_bytes(KvBlocks blocks);

/// Puts rows into their slots, rounded to blocks.type. keys, values [rows][stride], heads side by
/// side; slots [rows]: block * block_size + place in the block. A slot that does not exist is
/// `invalid_argument`, and nothing is written; no two rows may have the same one.
Status store_kv(const float* keys, const float* values, std::int64_t stride, Rows rows,
                const std::int64_t* slots, KvBlocks blocks);

struct AttentionForm {
  std::int64_t num_heads;     ///< of queries; a multiple of num_kv_heads: head h reads KV head
                              ///< h / (num_heads / num_kv_heads)
  float scale;                ///< of the products, usually 1 / sqrt(head_dim)
  float softcap;              ///< scores become softcap * tanh(score / softcap); 0: no cap
  std::int64_t window;        ///< tokens that a query sees, itself included; 0: all before it
  const float* alibi_slopes;  ///< [num_heads] or null: slope * (key position - query position) is
                              ///< added to the score
  const float* sinks = nullptr;  ///< [num_heads] or null: a score beside those of the keys, of
                                 ///< which nothing comes
  std::int64_t chunk = 0;  ///< tokens of a chunk, of which a query sees its own up to itself; 0:
                           ///< there are none
};

/// A ragged batch: sequence s has the queries [query_start[s], query_start[s + 1]), the last of its
/// context_tokens[s] tokens, whose keys and values are in the blocks
/// block_table[s * max_blocks + i] already, i = position / block_size.
struct RaggedBatch {
  std::int64_t num_sequences;
  const std::int32_t* query_start;     ///< [num_sequences + 1], never falling
  const std::int32_t* context_tokens;  ///< [num_sequences], at least the queries
  const std::int32_t* block_table;     ///< [num_sequences][max_blocks]
  std::int64_t max_blocks;
};

/// Independent pieces of a batch: (sequence, KV head, tile of queries). Which thread does which
/// changes no result. 0 where the arguments are not valid.
std::int64_t num_attention_tasks(RaggedBatch batch, KvBlocks blocks, AttentionForm form);

/// Causal attention for the tasks [tasks.first, tasks.last): softmax of the scores in f32 times the
/// values. queries [tokens][stride], out [tokens][out_stride], heads side by side in a row.
///
/// A token's output is the same in every bit whatever else is in the batch, however a prompt is cut
/// into calls, at every block size, placement of blocks and number of threads: each row goes
/// through its keys in tiles that begin at the positions 0, 64, 128, ..., and its arithmetic is the
/// same alone and beside others. The bits do depend on the instruction set. NaN and Inf reach only
/// the rows that see them. `invalid_argument` and `unsupported` leave `out` as it was; the blocks
/// of block_table are checked for the sequences of the call's tasks.
Status paged_attention(const float* queries, std::int64_t stride, RaggedBatch batch,
                       AttentionForm form, KvBlocks blocks, Rows tasks, float* out,
                       std::int64_t out_stride);

}  // namespace tessera::kernels
