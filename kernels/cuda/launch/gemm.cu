#include <algorithm>

#include "../device/pack_weights.cuh"
#include "gemm.h"
#include "packed_parts.h"
#include "segments.h"

namespace tessera::kernels::cuda {
namespace {

/// ceil(2^32 / d); group_of() and group_of_tile() multiply with it.
std::uint64_t reciprocal(std::int64_t d) {
  return ((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(d) - 1) /
         static_cast<std::uint64_t>(d);
}

void set_groups(GemmArguments& p, std::int64_t columns, std::int64_t group_size) {
  const bool whole = group_size == 0 || group_size >= columns;
  const std::int64_t halves =
      whole ? num_tiles(columns, kTileColumns) * 2 : group_size / kHalfColumns;
  p.group_halves = static_cast<int>(halves);
  p.group_reciprocal = reciprocal(halves);
  p.tile_reciprocal = static_cast<std::uint32_t>(reciprocal(std::max<std::int64_t>(halves / 2, 2)));
  p.f16_mask = p.scale_type == Real::f16 ? 0xffffffffu : 0;
  p.span = whole || halves % 4 == 0 ? 4 : halves % 2 == 0 ? 2 : 1;
}

GemmArguments arguments_of(const GemmPlan& plan, Matrix activations, PackedWeights weights,
                           float* out, std::int64_t out_stride) {
  const PackedParts parts = packed_parts(weights.rows, weights.columns, weights.format);
  const auto* data = static_cast<const std::uint8_t*>(weights.data);
  GemmArguments p{};
  p.words = static_cast<const std::uint32_t*>(weights.data);
  p.scales = data + parts.scales;
  p.zero_points = weights.format.symmetric ? nullptr : data + parts.zero_points;
  p.activations = activations.data;
  p.out = out;
  p.activation_stride = activations.stride;
  p.out_stride = out_stride;
  p.tokens = static_cast<int>(activations.rows);
  p.rows = static_cast<int>(weights.rows);
  p.columns = static_cast<int>(weights.columns);
  p.row_tiles = static_cast<int>(num_tiles(weights.rows, kTileRows));
  p.column_tiles = static_cast<int>(num_tiles(weights.columns, kTileColumns));
  p.num_groups = static_cast<int>(num_groups(weights.columns, weights.format.group_size));
  p.tiles_per_split = (p.column_tiles + plan.splits - 1) / plan.splits;
  p.scale_type = weights.format.scale_type;
  set_groups(p, weights.columns, weights.format.group_size);
  p.aligned =
      is_aligned(activations.data, 16) && activations.stride * size_of(activations.type) % 16 == 0;
  return p;
}

Status run(const GemmPlan& plan, Real type, int bitwidth, const GemmArguments& p, Stream stream) {
  switch (bitwidth) {
    case 3:
      return run_gemm<3>(plan, type, p, stream);
    case 4:
      return run_gemm<4>(plan, type, p, stream);
    default:
      return run_gemm<8>(plan, type, p, stream);
  }
}

}  // namespace

Status pack_weights(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns,
                    QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                    void* data, Stream stream) {
  if (packed_weights_bytes(rows, columns, format) == 0 || codes == nullptr || scale == nullptr ||
      data == nullptr || !is_aligned(data, 256) || (zero_point == nullptr && !format.symmetric))
    return Status::invalid_argument;
  const PackedParts parts = packed_parts(rows, columns, format);
  auto* bytes = static_cast<std::uint8_t*>(data);
  const std::int64_t row_tiles = num_tiles(rows, kTileRows);
  const auto kernel = format.bitwidth == 3   ? pack_weights_kernel<3>
                      : format.bitwidth == 4 ? pack_weights_kernel<4>
                                             : pack_weights_kernel<8>;
  const dim3 grid{blocks_of(row_tiles * num_tiles(columns, kTileColumns) * 32, kPackThreads), 1, 1};
  const Status status = launch(kernel, grid, dim3{kPackThreads, 1, 1}, 0, stream, codes, rows,
                               columns, static_cast<std::uint32_t*>(data));
  if (status != Status::ok) return status;
  const std::int64_t groups = num_groups(columns, format.group_size);
  return launch(pack_scales_kernel,
                dim3{blocks_of(row_tiles * kTileRows * groups, kPackThreads), 1, 1},
                dim3{kPackThreads, 1, 1}, 0, stream, scale, zero_point, rows, groups,
                format.scale_type, static_cast<void*>(bytes + parts.scales),
                format.symmetric ? nullptr : bytes + parts.zero_points);
}

Status dequant_gemm(const GemmPlan& plan, Matrix activations, PackedWeights weights, float* out,
                    std::int64_t out_stride, void* workspace, Stream stream) {
  if (plan.status != Status::ok) return plan.status;
  if (activations.data == nullptr || weights.data == nullptr || out == nullptr ||
      activations.rows <= 0 || activations.columns != weights.columns ||
      activations.stride < activations.columns || out_stride < weights.rows ||
      packed_weights_bytes(weights.rows, weights.columns, weights.format) == 0 ||
      !is_aligned(weights.data, 256) || plan.splits < 1 ||
      (plan.splits > 1 && workspace == nullptr))
    return Status::invalid_argument;
  const std::int64_t most = plan.kernel == GemmKernel::fma_decode  ? 4
                            : plan.kernel == GemmKernel::decode    ? 8
                            : plan.kernel == GemmKernel::decode_16 ? 16
                                                                   : activations.rows;
  if (activations.rows > most) return Status::invalid_argument;  // a plan for another shape
  GemmArguments p = arguments_of(plan, activations, weights, out, out_stride);
  if (plan.splits > 1) {
    p.out = static_cast<float*>(workspace);
    p.out_stride = weights.rows;
    p.split_stride = activations.rows * weights.rows;
    if (p.split_stride * plan.splits * std::int64_t{sizeof(float)} > plan.workspace_bytes)
      return Status::invalid_argument;
  }
  const Status status = run(plan, activations.type, weights.format.bitwidth, p, stream);
  if (status != Status::ok || plan.splits == 1) return status;
  return launch(sum_splits_kernel, dim3{blocks_of(p.split_stride, kPackThreads), 1, 1},
                dim3{kPackThreads, 1, 1}, 0, stream, static_cast<const float*>(workspace),
                plan.splits, activations.rows, weights.rows, out, out_stride);
}

}  // namespace tessera::kernels::cuda
