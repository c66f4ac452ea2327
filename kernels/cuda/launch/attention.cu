#include "../device/attention.cuh"
#include "runtime.h"
#include "tessera/kernels/cuda/attention.h"

namespace tessera::kernels::cuda {
namespace {

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

bool valid(const RaggedBatch& batch, const AttentionForm& form, const KvBlocks& blocks) {
  return batch.num_sequences > 0 && batch.query_start != nullptr &&
         batch.context_tokens != nullptr && batch.block_table != nullptr && batch.max_blocks > 0 &&
         form.num_heads > 0 && form.window >= 0 && blocks.keys != nullptr &&
         blocks.values != nullptr && blocks.num_blocks > 0 && blocks.block_size > 0 &&
         blocks.num_kv_heads > 0 && blocks.head_dim > 0 &&
         form.num_heads % blocks.num_kv_heads == 0 &&
         (blocks.type != KvType::int8 ||
          (blocks.key_scale != nullptr && blocks.value_scale != nullptr));
}

}  // namespace

Status paged_attention(const float* queries, std::int64_t stride, std::int64_t tokens,
                       RaggedBatch batch, AttentionForm form, KvBlocks blocks, float* out,
                       std::int64_t out_stride, Stream stream) {
  if (queries == nullptr || out == nullptr || tokens <= 0 || !valid(batch, form, blocks) ||
      stride < form.num_heads * blocks.head_dim || out_stride < form.num_heads * blocks.head_dim)
    return Status::invalid_argument;
  if (blocks.head_dim > kMaxHeadDim || tokens > 0x7fffffff || form.num_heads > 65535 ||
      batch.num_sequences > 0x7fffffff || batch.max_blocks * blocks.block_size > 0x7fffff00)
    return Status::unsupported;
  const AttentionArguments p{
      queries, out,  stride, out_stride,
      batch,   form, blocks, blocks.head_dim % 16 == 0 && is_aligned(blocks.keys)};
  const auto kernel = blocks.type == KvType::f32    ? attention_kernel<KvType::f32>
                      : blocks.type == KvType::f16  ? attention_kernel<KvType::f16>
                      : blocks.type == KvType::bf16 ? attention_kernel<KvType::bf16>
                                                    : attention_kernel<KvType::int8>;
  const dim3 grid{static_cast<unsigned>(tokens), static_cast<unsigned>(form.num_heads), 1};
  return launch(kernel, grid, dim3{kAttentionThreads, 1, 1}, 0, stream, p);
}

}  // namespace tessera::kernels::cuda
