#pragma once

#include "real.cuh"
#include "tessera/kernels/attention.h"

namespace tessera::kernels::cuda {

inline constexpr int kAttentionThreads = 128;  ///< of a block, and keys of a tile
inline constexpr int kAttentionDims = 5;       ///< head dimensions of a thread, at most
static_assert(kAttentionThreads * kAttentionDims >= kMaxHeadDim);

/// Pointers are the device's; the shapes are those of paged_attention().
struct AttentionArguments {
  const float* queries;
  float* out;
  std::int64_t stride, out_stride;
  RaggedBatch batch;
  AttentionForm form;
  KvBlocks blocks;
  bool aligned;  ///< rows of the cache begin at multiples of 16 bytes
};

/// Eight numbers of a row of the cache, from `index` on.
template <KvType Type>
TESSERA_DEVICE void load_eight(const void* row, int index, float (&values)[8]) {
  if constexpr (Type == KvType::f32) {
    const auto* from = reinterpret_cast<const uint4*>(static_cast<const float*>(row) + index);
    const uint4 a = from[0], b = from[1];
    const std::uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = __uint_as_float(words[i]);
  } else if constexpr (Type == KvType::int8) {
    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const std::int8_t*>(row) + index);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      values[i] =
          static_cast<float>(static_cast<std::int8_t>((i < 4 ? v.x : v.y) >> (8 * (i % 4))));
  } else {
    const uint4 v = *reinterpret_cast<const uint4*>(static_cast<const std::uint16_t*>(row) + index);
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bits = words[i / 2] >> (16 * (i % 2)) & 0xffff;
      values[i] = Type == KvType::f16 ? f32_of_f16(static_cast<std::uint16_t>(bits))
                                      : __uint_as_float(bits << 16);
    }
  }
}

template <KvType Type>
TESSERA_DEVICE float load_number(const void* all, std::int64_t index) {
  if constexpr (Type == KvType::int8)
    return static_cast<float>(static_cast<const std::int8_t*>(all)[index]);
  return load_real(all,
                   Type == KvType::f32   ? Real::f32
                   : Type == KvType::f16 ? Real::f16
                                         : Real::bf16,
                   index);
}

/// Sequence of a query: the last that begins at or before it.
TESSERA_DEVICE int sequence_of(const RaggedBatch& batch, int query) {
  int low = 0, high = static_cast<int>(batch.num_sequences) - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (batch.query_start[middle] <= query)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// query * key, of a row in shared memory and one of the cache.
template <KvType Type>
TESSERA_DEVICE float dot_key(const AttentionArguments& p, const float* query, std::int64_t token) {
  const int dim = static_cast<int>(p.blocks.head_dim);
  float sum = 0;
  if (p.aligned) {
    constexpr int kBytes = Type == KvType::f32 ? 4 : Type == KvType::int8 ? 1 : 2;
    const unsigned char* row =
        static_cast<const unsigned char*>(p.blocks.keys) + token * dim * kBytes;
    for (int i = 0; i < dim; i += 8) {
      float values[8];
      load_eight<Type>(row, i, values);
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += query[i + k] * values[k];
    }
  } else {
    for (int i = 0; i < dim; ++i)
      sum += query[i] * load_number<Type>(p.blocks.keys, token * dim + i);
  }
  return Type == KvType::int8 ? sum * p.blocks.key_scale[token] : sum;
}

/// Attention of one query and head, over tiles of keys at the positions 0, 128, 256, ...: a thread
/// has the score of one key, then some dimensions of the result. What a row gets depends on nothing
/// else in the batch. Scores and sums are f32; a new largest score scales down what there is
/// (Milakov and Gimelshein, arXiv:1805.02867).
///
/// grid [queries][num_heads], block [kAttentionThreads].
template <KvType Type>
__global__ void __launch_bounds__(kAttentionThreads) attention_kernel(const AttentionArguments p) {
  __shared__ __align__(16) float query[kMaxHeadDim];
  __shared__ __align__(16) float weights[kAttentionThreads];
  __shared__ std::int64_t tokens[kAttentionThreads];  // places in the cache, -1: not seen
  const int thread = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y), dim = static_cast<int>(p.blocks.head_dim);
  const int sequence = sequence_of(p.batch, row);
  const int position = p.batch.context_tokens[sequence] - p.batch.query_start[sequence + 1] + row;
  const int in_window = p.form.window > 0 && position >= p.form.window
                            ? position - static_cast<int>(p.form.window) + 1
                            : 0;
  const int in_chunk = p.form.chunk > 0 ? position - static_cast<int>(position % p.form.chunk) : 0;
  const int first = in_window > in_chunk ? in_window : in_chunk;
  const std::int64_t kv_head = head / (p.form.num_heads / p.blocks.num_kv_heads);
  const std::int32_t* table = p.batch.block_table + sequence * p.batch.max_blocks;
  const int block_size = static_cast<int>(p.blocks.block_size);
  for (int i = thread; i < dim; i += kAttentionThreads)
    query[i] = p.queries[row * p.stride + static_cast<std::int64_t>(head) * dim + i];

  const float kNone = __uint_as_float(0xff800000u);  // -infinity
  float largest = kNone, total = 0, sum[kAttentionDims] = {};
  for (int begin = first / kAttentionThreads * kAttentionThreads; begin <= position;
       begin += kAttentionThreads) {
    const int key = begin + thread;
    const bool seen = key >= first && key <= position;
    std::int64_t token = -1;
    if (seen)
      token = (table[key / block_size] * p.blocks.num_kv_heads + kv_head) * block_size +
              key % block_size;
    sync_block();  // the query is here, and the tile before is done with
    float score = kNone;
    if (seen) {
      score = dot_key<Type>(p, query, token) * p.form.scale;
      if (p.form.softcap > 0) score = p.form.softcap * tanhf(score / p.form.softcap);
      if (p.form.alibi_slopes != nullptr)
        score += p.form.alibi_slopes[head] * static_cast<float>(key - position);
    }
    weights[thread] = score;
    tokens[thread] = token;
    sync_block();
    float tile_largest = kNone;
#pragma unroll 4
    for (int i = 0; i < kAttentionThreads; i += 4) {
      const uint4 four = *reinterpret_cast<const uint4*>(weights + i);
      tile_largest =
          fmaxf(tile_largest, fmaxf(fmaxf(__uint_as_float(four.x), __uint_as_float(four.y)),
                                    fmaxf(__uint_as_float(four.z), __uint_as_float(four.w))));
    }
    sync_block();  // all have read the scores
    const float before = largest;
    largest = fmaxf(largest, tile_largest);
    weights[thread] = seen ? expf(score - largest) : 0;
    sync_block();
    const float kept = before == kNone ? 0 : expf(before - largest);
    total *= kept;
#pragma unroll
    for (int d = 0; d < kAttentionDims; ++d) sum[d] *= kept;
    const int last =
        position - begin < kAttentionThreads ? position - begin : kAttentionThreads - 1;
#pragma unroll 4
    for (int i = begin < first ? first - begin : 0; i <= last; ++i) {
      const float weight = weights[i];
      const std::int64_t at = tokens[i] * dim;
      total += weight;
      const float scaled = Type == KvType::int8 ? weight * p.blocks.value_scale[tokens[i]] : weight;
#pragma unroll
      for (int d = 0; d < kAttentionDims; ++d) {
        const int i_dim = thread + d * kAttentionThreads;
        if (i_dim < dim) sum[d] += scaled * load_number<Type>(p.blocks.values, at + i_dim);
      }
    }
  }
#pragma unroll
  for (int d = 0; d < kAttentionDims; ++d) {
    const int i_dim = thread + d * kAttentionThreads;
    if (i_dim < dim)
      p.out[row * p.out_stride + static_cast<std::int64_t>(head) * dim + i_dim] = sum[d] / total;
  }
}

}  // namespace tessera::kernels::cuda
