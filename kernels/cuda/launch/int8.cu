#include "../../cpu/check.h"
#include "../device/int8_gemm.cuh"
#include "../device/outliers.cuh"
#include "runtime.h"
#include "segments.h"
#include "tessera/kernels/cuda/int8.h"

namespace tessera::kernels::cuda {
namespace {

constexpr std::int64_t kMaxLines = std::int64_t{1}
                                   << 21;  // tokens and rows: a grid has 65535 blocks in y

}  // namespace

Status int8_gemm(Device device, const std::int8_t* codes, const float* scale, std::int64_t tokens,
                 Int8Weights weights, float* out, std::int64_t out_stride, Stream stream) {
  if (codes == nullptr || scale == nullptr || !cpu::valid_shape(tokens, weights.columns) ||
      !cpu::valid_shape(weights.rows, weights.columns) || weights.codes == nullptr ||
      weights.scale == nullptr || out == nullptr || out_stride < weights.rows)
    return Status::invalid_argument;
  if (weights.columns > kMaxInt8Columns || tokens > kMaxLines || weights.rows > kMaxLines)
    return Status::unsupported;
  const Int8Arguments p{
      codes,
      weights.codes,
      scale,
      weights.scale,
      out,
      out_stride,
      static_cast<int>(tokens),
      static_cast<int>(weights.rows),
      static_cast<int>(weights.columns),
      is_aligned(codes, 16) && is_aligned(weights.codes, 16) && weights.columns % 16 == 0};
  if (device.compute_capability >= 75) {
    const dim3 grid{blocks_of(weights.rows, kInt8Rows), blocks_of(tokens, kInt8Tokens), 1};
    return launch(int8_gemm_kernel, grid, dim3{kInt8Threads, 1, 1}, 0, stream, p);
  }
  const dim3 grid{blocks_of(weights.rows, kDotTile), blocks_of(tokens, kDotTile), 1};
  return launch(int8_dot_kernel, grid, dim3{kDotThreads, 1, 1}, 0, stream, p);
}

Status find_outlier_columns(Matrix x, float threshold, std::uint8_t* is_outlier,
                            std::int64_t* num_outliers, Stream stream) {
  if (!cpu::valid(x) || !(threshold > 0) || is_outlier == nullptr || num_outliers == nullptr)
    return Status::invalid_argument;
  const Status status =
      launch(find_outliers_kernel, dim3{blocks_of(x.columns, kOutlierThreads), 1, 1},
             dim3{kOutlierThreads, 1, 1}, 0, stream, x.data, x.type, x.rows, x.columns, x.stride,
             threshold, is_outlier);
  if (status != Status::ok) return status;
  return launch(list_outliers_kernel, dim3{1, 1, 1}, dim3{kOutlierThreads, 1, 1}, 0, stream,
                static_cast<const std::uint8_t*>(is_outlier), x.columns,
                static_cast<std::int32_t*>(nullptr), num_outliers);
}

std::int64_t outlier_workspace_bytes(std::int64_t columns) {
  return static_cast<std::int64_t>(sizeof(std::int64_t)) +
         columns * static_cast<std::int64_t>(sizeof(std::int32_t));
}

Status add_outlier_product(Matrix x, const std::uint8_t* is_outlier, Matrix weights, float* out,
                           std::int64_t out_stride, void* workspace, Stream stream) {
  if (!cpu::valid(x) || is_outlier == nullptr || !cpu::valid(weights) ||
      x.columns != weights.columns || out == nullptr || out_stride < weights.rows ||
      workspace == nullptr)
    return Status::invalid_argument;
  if (x.columns > 0x7fffffff || x.rows > kOutlierTokens * std::int64_t{65535})
    return Status::unsupported;
  auto* num_outliers = static_cast<std::int64_t*>(workspace);
  auto* list = reinterpret_cast<std::int32_t*>(num_outliers + 1);
  const Status status = launch(list_outliers_kernel, dim3{1, 1, 1}, dim3{kOutlierThreads, 1, 1}, 0,
                               stream, is_outlier, x.columns, list, num_outliers);
  if (status != Status::ok) return status;
  const OutlierArguments p{x.data,       weights.data,   x.type,       weights.type,
                           x.stride,     weights.stride, out_stride,   x.rows,
                           weights.rows, list,           num_outliers, out};
  const dim3 grid{blocks_of(weights.rows, kOutlierRows), blocks_of(x.rows, kOutlierTokens), 1};
  return launch(add_outliers_kernel, grid, dim3{kOutlierThreads, 1, 1}, 0, stream, p);
}

std::int64_t token_outliers_workspace_bytes(std::int64_t tokens, std::int64_t columns) {
  return tokens * (columns + 1) * static_cast<std::int64_t>(sizeof(std::int32_t));
}

Status add_token_outliers(Matrix x, float threshold, Int8Weights weights, float* out,
                          std::int64_t out_stride, void* workspace, Stream stream) {
  if (!cpu::valid(x) || !(threshold > 0) || !cpu::valid_shape(weights.rows, weights.columns) ||
      weights.codes == nullptr || weights.scale == nullptr || x.columns != weights.columns ||
      out == nullptr || out_stride < weights.rows || workspace == nullptr)
    return Status::invalid_argument;
  if (x.columns > kMaxInt8Columns || x.rows > 0x7fffffff || weights.rows > kMaxLines)
    return Status::unsupported;
  auto* num_outliers = static_cast<std::int32_t*>(workspace);
  std::int32_t* list = num_outliers + x.rows;
  const auto tokens = static_cast<unsigned>(x.rows);
  const Status status =
      launch(list_token_outliers_kernel, dim3{tokens, 1, 1}, dim3{kOutlierThreads, 1, 1}, 0, stream,
             x.data, x.type, x.columns, x.stride, threshold, list, num_outliers);
  if (status != Status::ok) return status;
  const TokenOutlierArguments p{
      x.data,        x.type,        x.stride, weights.rows, x.columns, out_stride,
      weights.codes, weights.scale, list,     num_outliers, out};
  return launch(add_token_outliers_kernel,
                dim3{tokens, blocks_of(weights.rows, kOutlierThreads), 1},
                dim3{kOutlierThreads, 1, 1}, 0, stream, p);
}

}  // namespace tessera::kernels::cuda
