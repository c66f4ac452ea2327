// Everything that reduces: CUB's headers take most of the compiler's time, so they are read once.
#include "../../cpu/check.h"
#include "../device/moments.cuh"
#include "../device/range.cuh"
#include "runtime.h"
#include "segments.h"
#include "tessera/kernels/cuda/int8.h"
#include "tessera/kernels/cuda/moments.h"
#include "tessera/kernels/cuda/quantise.h"

namespace tessera::kernels::cuda {
namespace {

// Enough blocks for the largest GPUs, each with enough to read to be worth its start.
int num_partials(std::int64_t count) {
  const std::int64_t blocks = (count + kReduceThreads * 32 - 1) / (kReduceThreads * 32);
  return static_cast<int>(blocks < 1 ? 1 : blocks < 1024 ? blocks : 1024);
}

Status quantise_around(Matrix matrix, const std::uint8_t* is_outlier, float threshold,
                       std::int8_t* codes, float* scale, Stream stream) {
  if (!cpu::valid(matrix) || codes == nullptr || scale == nullptr) return Status::invalid_argument;
  if (matrix.rows > 0x7fffffff) return Status::unsupported;
  return launch(quantise_rows_kernel, dim3{static_cast<unsigned>(matrix.rows), 1, 1},
                dim3{kReduceThreads, 1, 1}, 0, stream, matrix.data, matrix.type, matrix.columns,
                matrix.stride, is_outlier, threshold, codes, scale);
}

}  // namespace

std::int64_t moments_workspace_bytes(std::int64_t count) {
  return num_partials(count) * static_cast<std::int64_t>(sizeof(Moments));
}

Status moments(const void* x, Real type, std::int64_t count, void* workspace, Moments* out,
               Stream stream) {
  if (x == nullptr || !cpu::valid(type) || !cpu::valid_shape(1, count) || workspace == nullptr ||
      out == nullptr)
    return Status::invalid_argument;
  auto* partial = static_cast<Moments*>(workspace);
  const int blocks = num_partials(count);
  const Status status = launch(partial_moments_kernel, dim3{static_cast<unsigned>(blocks), 1, 1},
                               dim3{kReduceThreads, 1, 1}, 0, stream, x, type, count, partial);
  if (status != Status::ok) return status;
  return launch(merge_moments_kernel, dim3{1, 1, 1}, dim3{kReduceThreads, 1, 1}, 0, stream,
                static_cast<const Moments*>(partial), blocks, out);
}

Status group_moments(Matrix matrix, std::int64_t group_size, Moments* out, Stream stream) {
  if (!cpu::valid(matrix) || group_size < 0 || out == nullptr) return Status::invalid_argument;
  const Segments segments = segments_of(matrix, group_size);
  const std::int64_t count = segments.rows * segments.per_row;
  if (count > kMaxElements) return Status::unsupported;
  const bool warp = segments.size <= kWarpSegment;
  return launch(warp ? group_moments_kernel<32> : group_moments_kernel<kReduceThreads>,
                dim3{blocks_of(count, warp ? kReduceThreads / 32 : 1), 1, 1},
                dim3{kReduceThreads, 1, 1}, 0, stream, segments, out);
}

Status choose_scales(Matrix matrix, QuantFormat format, float* scale, std::uint8_t* zero_point,
                     Stream stream) {
  if (!cpu::valid(matrix) || !cpu::valid(format) || scale == nullptr || zero_point == nullptr)
    return Status::invalid_argument;
  const Segments groups = segments_of(matrix, format.group_size);
  const std::int64_t count = groups.rows * groups.per_row;
  if (count > kMaxElements) return Status::unsupported;
  const bool warp = groups.size <= kWarpSegment;
  return launch(warp ? choose_scales_kernel<32> : choose_scales_kernel<kReduceThreads>,
                dim3{blocks_of(count, warp ? kReduceThreads / 32 : 1), 1, 1},
                dim3{kReduceThreads, 1, 1}, 0, stream, groups, format, scale, zero_point);
}

Status quantise_rows(Matrix matrix, const std::uint8_t* is_outlier, std::int8_t* codes,
                     float* scale, Stream stream) {
  return quantise_around(matrix, is_outlier, 0, codes, scale, stream);
}

Status quantise_tokens(Matrix activations, float threshold, std::int8_t* codes, float* scale,
                       Stream stream) {
  if (!(threshold >= 0)) return Status::invalid_argument;
  return quantise_around(activations, nullptr, threshold, codes, scale, stream);
}

}  // namespace tessera::kernels::cuda
