#pragma once

#include "tessera/kernels/attention.h"
#include "tessera/kernels/cuda/device.h"

namespace tessera::kernels::cuda {

/// As kernels::paged_attention, for all tasks and in device memory, the tables and slopes too: they
/// are not looked into before the kernel runs, so a block that does not exist is read all the same.
/// `tokens` is query_start[num_sequences]. A row has the same bits whatever else is in the batch
/// and however a prompt is cut.
Status paged_attention(const float* queries, std::int64_t stride, std::int64_t tokens,
                       RaggedBatch batch, AttentionForm form, KvBlocks blocks, float* out,
                       std::int64_t out_stride, Stream stream);

}  // namespace tessera::kernels::cuda
