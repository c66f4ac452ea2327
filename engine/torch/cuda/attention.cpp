#include "tessera/kernels/cuda/attention.h"

#include <utility>

#include "packed_linear.h"
#include "tessera/core/error.h"

namespace tessera::lm {

Attend make_attention(std::shared_ptr<const KernelDevice> device) {
  return [device = std::move(device)](Rows2d queries, const BatchTables& batch,
                                      const kernels::AttentionForm& form,
                                      const kernels::KvBlocks& blocks, Rows2d out) {
    const kernels::RaggedBatch ragged{
        batch.num_sequences, static_cast<const std::int32_t*>(batch.query_start.get()),
        static_cast<const std::int32_t*>(batch.context_tokens.get()),
        static_cast<const std::int32_t*>(batch.block_table.get()), batch.max_blocks};
    const kernels::Status status = device->run([&](kernels::cuda::Stream stream) {
      return kernels::cuda::paged_attention(queries.data, queries.stride, queries.rows, ragged,
                                            form, blocks, out.data, out.stride, stream);
    });
    if (status == kernels::Status::unsupported) return false;
    if (status == kernels::Status::ok) return true;
    throw Error(ErrorCode::internal,
                std::string("attention on the GPU: ") + kernels::describe(status));
  };
}

}  // namespace tessera::lm
