#include "tessera/kernels/attention.h"

#include <cstring>

#include "attention_arguments.h"
#include "attention_task.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

/// All but the tables of blocks.
bool valid(const RaggedBatch& batch, const KvBlocks& blocks) {
  if (!cpu::has_tables(batch) || batch.query_start[0] < 0) return false;
  for (std::int64_t s = 0; s < batch.num_sequences; ++s) {
    const std::int64_t queries =
        std::int64_t{batch.query_start[s + 1]} - std::int64_t{batch.query_start[s]};
    const std::int64_t context = batch.context_tokens[s];
    if (queries < 0 || context < queries) return false;
    if ((context + blocks.block_size - 1) / blocks.block_size > batch.max_blocks) return false;
  }
  return true;
}

std::int64_t tiles_of(const RaggedBatch& batch, std::int64_t group, std::int64_t s) {
  const std::int64_t queries = batch.query_start[s + 1] - batch.query_start[s];
  return (queries * group + cpu::kTaskRows - 1) / cpu::kTaskRows;
}

/// Calls f(sequence, KV head, tile) for the tasks in order until it answers false.
template <class F>
bool for_tasks(const RaggedBatch& batch, const KvBlocks& blocks, std::int64_t group, Rows tasks,
               const F& f) {
  std::int64_t first = 0;  // task of the sequence
  for (std::int64_t s = 0; s < batch.num_sequences && first < tasks.last; ++s) {
    const std::int64_t tiles = tiles_of(batch, group, s), count = tiles * blocks.num_kv_heads;
    const std::int64_t last = tasks.last - first < count ? tasks.last - first : count;
    for (std::int64_t i = tasks.first > first ? tasks.first - first : 0; i < last; ++i) {
      // The tiles with the most keys first, so that threads end together.
      if (!f(s, i / tiles, tiles - 1 - i % tiles)) return false;
    }
    first += count;
  }
  return true;
}

bool valid_table(const RaggedBatch& batch, const KvBlocks& blocks, std::int64_t s) {
  const std::int64_t used = (batch.context_tokens[s] + blocks.block_size - 1) / blocks.block_size;
  const std::int32_t* table = batch.block_table + s * batch.max_blocks;
  for (std::int64_t i = 0; i < used; ++i) {
    if (table[i] < 0 || table[i] >= blocks.num_blocks) return false;
  }
  return true;
}

void store(const float* from, const KvBlocks& b, std::int64_t token, void* all, float* scale) {
  char* to = static_cast<char*>(all) + token * b.head_dim * cpu::size_of(b.type);
  const cpu::Versions& versions = cpu::chosen();
  if (b.type == KvType::f32) {
    std::memcpy(to, from, static_cast<std::size_t>(b.head_dim) * 4);
  } else if (b.type == KvType::int8) {
    versions.quantise_row({from, Real::f32, b.head_dim}, nullptr,
                          reinterpret_cast<std::int8_t*>(to), scale + token);
  } else {
    versions.narrow(from, b.head_dim, b.type == KvType::f16 ? Real::f16 : Real::bf16, to);
  }
}

}  // namespace

std::int64_t kv_bytes(KvBlocks b) {
  if (!cpu::valid_shape(b)) return 0;
  return b.num_blocks * b.block_size * b.num_kv_heads * b.head_dim * cpu::size_of(b.type);
}

Status store_kv(const float* keys, const float* values, std::int64_t stride, Rows rows,
                const std::int64_t* slots, KvBlocks blocks) {
  if (!cpu::valid(blocks) || keys == nullptr || values == nullptr || slots == nullptr ||
      !cpu::valid(rows, rows.last) || stride < blocks.num_kv_heads * blocks.head_dim ||
      !cpu::valid_shape(rows.last, stride)) {
    return Status::invalid_argument;
  }
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    if (slots[row] < 0 || slots[row] >= blocks.num_blocks * blocks.block_size) {
      return Status::invalid_argument;
    }
  }
  if (blocks.head_dim > kMaxHeadDim) return Status::unsupported;
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::int64_t block = slots[row] / blocks.block_size;
    const std::int64_t place = slots[row] % blocks.block_size;
    for (std::int64_t head = 0; head < blocks.num_kv_heads; ++head) {
      const std::int64_t token = (block * blocks.num_kv_heads + head) * blocks.block_size + place;
      const std::int64_t from = row * stride + head * blocks.head_dim;
      store(keys + from, blocks, token, blocks.keys, blocks.key_scale);
      store(values + from, blocks, token, blocks.values, blocks.value_scale);
    }
  }
  return Status::ok;
}

std::int64_t num_attention_tasks(RaggedBatch batch, KvBlocks blocks, AttentionForm form) {
  if (!cpu::valid_shape(blocks) || !cpu::valid(form, blocks) || !valid(batch, blocks)) return 0;
  std::int64_t count = 0;
  for (std::int64_t s = 0; s < batch.num_sequences; ++s) {
    count += tiles_of(batch, form.num_heads / blocks.num_kv_heads, s) * blocks.num_kv_heads;
  }
  return count;
}

Status paged_attention(const float* queries, std::int64_t stride, RaggedBatch batch,
                       AttentionForm form, KvBlocks blocks, Rows tasks, float* out,
                       std::int64_t out_stride) {
  if (queries == nullptr || out == nullptr || !cpu::valid(blocks) || !cpu::valid(form, blocks) ||
      !valid(batch, blocks) || stride < form.num_heads * blocks.head_dim ||
      out_stride < form.num_heads * blocks.head_dim ||
      !cpu::valid(tasks, num_attention_tasks(batch, blocks, form))) {
    return Status::invalid_argument;
  }
  const std::int64_t group = form.num_heads / blocks.num_kv_heads;
  std::int64_t checked = -1;
  const auto check = [&](std::int64_t s, std::int64_t, std::int64_t) {
    const bool good = s == checked || valid_table(batch, blocks, s);
    checked = s;
    return good;
  };
  if (!for_tasks(batch, blocks, group, tasks, check)) return Status::invalid_argument;
  if (blocks.head_dim > kMaxHeadDim) return Status::unsupported;
  for_tasks(batch, blocks, group, tasks, [&](std::int64_t s, std::int64_t head, std::int64_t tile) {
    const std::int64_t first = batch.query_start[s];
    const std::int64_t count = batch.query_start[s + 1] - first;
    const std::int64_t row = tile * cpu::kTaskRows, left = count * group - row;
    cpu::chosen().attention({queries + first * stride,
                             stride,
                             out + first * out_stride,
                             out_stride,
                             form,
                             blocks,
                             batch.block_table + s * batch.max_blocks,
                             batch.context_tokens[s] - count,
                             head,
                             {row, row + (left < cpu::kTaskRows ? left : cpu::kTaskRows)}});
    return true;
  });
  return Status::ok;
}

}  // namespace tessera::kernels
