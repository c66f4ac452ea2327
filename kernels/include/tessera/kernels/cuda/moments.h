#pragma once

#include "tessera/kernels/cuda/device.h"
#include "tessera/kernels/moments.h"

namespace tessera::kernels::cuda {

/// Bytes of device memory that moments() works in.
std::int64_t moments_workspace_bytes(std::int64_t count);

/// Moments of `count` numbers at `x` into `*out`, all in device memory. min, max and the counts are
/// those of kernels::moments; mean and variance agree to the accuracy that it promises.
Status moments(const void* x, Real type, std::int64_t count, void* workspace, Moments* out,
               Stream stream);

/// Moments of every group, [matrix.rows][num_groups(columns, group_size)], in device memory.
Status group_moments(Matrix matrix, std::int64_t group_size, Moments* out, Stream stream);

}  // namespace tessera::kernels::cuda
