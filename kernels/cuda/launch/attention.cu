#include "../../cpu/attention_arguments.h"
#include "../device/attention.cuh"
#include "runtime.h"
#include "segments.h"
#include "tessera/kernels/cuda/attention.h"

namespace tessera::kernels::cuda {
Status paged_attention(const float* queries, std::int64_t stride, std::int64_t tokens,
                       RaggedBatch batch, AttentionForm form, KvBlocks blocks, float* out,
                       std::int64_t out_stride, Stream stream) {
  if (queries == nullptr || out == nullptr || tokens <= 0 || !cpu::has_tables(batch) ||
      !cpu::valid(blocks) || !cpu::valid(form, blocks) ||
      stride < form.num_heads * blocks.head_dim || out_stride < form.num_heads * blocks.head_dim)
    return Status::invalid_argument;
  if (form.sinks != nullptr) return Status::unsupported;
  if (blocks.head_dim > kMaxHeadDim || tokens > 0x7fffffff || form.num_heads > 65535 ||
      batch.num_sequences > 0x7fffffff || batch.max_blocks * blocks.block_size > 0x7fffff00)
    return Status::unsupported;
  const AttentionArguments p{
      queries, out,  stride, out_stride,
      batch,   form, blocks, blocks.head_dim % 16 == 0 && is_aligned(blocks.keys, 16)};
  const auto kernel = blocks.type == KvType::f32    ? attention_kernel<KvType::f32>
                      : blocks.type == KvType::f16  ? attention_kernel<KvType::f16>
                      : blocks.type == KvType::bf16 ? attention_kernel<KvType::bf16>
                                                    : attention_kernel<KvType::int8>;
  const dim3 grid{static_cast<unsigned>(tokens), static_cast<unsigned>(form.num_heads), 1};
  return launch(kernel, grid, dim3{kAttentionThreads, 1, 1}, 0, stream, p);
}

}  // namespace tessera::kernels::cuda
