// Which kernel for which product, and the sizes of packed weights: decisions that need no GPU.

#include <algorithm>

#include "packed_parts.h"
#include "tessera/kernels/cuda/gemm.h"

namespace tessera::kernels::cuda {
namespace {

constexpr std::int64_t kMaxSide = std::int64_t{1} << 21;
constexpr int kBlockRows = 128;  // of the tiled kernel

const char* why_unsupported(Device device, Real activation_type, std::int64_t tokens,
                            std::int64_t rows, std::int64_t columns) {
  if (std::max({tokens, rows, columns}) > kMaxSide)
    return "a side of the product is longer than 2^21";
  if (device.compute_capability < 60) return "the GPU is older than sm_60";
  if (activation_type == Real::bf16 && device.compute_capability < 80)
    return "bf16 activations need sm_80: older tensor cores do not know the type; use f16 or f32";
  return nullptr;
}

GemmKernel choose_kernel(Device device, Real activation_type, std::int64_t tokens,
                         Real scale_type) {
  const bool tensor = activation_type != Real::f32 && device.compute_capability >= 75;
  if (!tensor) {
    if (tokens <= 4) return GemmKernel::fma_decode;
    const bool first_cores = device.compute_capability == 70 || device.compute_capability == 72;
    return first_cores && activation_type == Real::f16 ? GemmKernel::wmma : GemmKernel::fma;
  }
  if (scale_type != Real::f32) {
    if (tokens <= 8) return GemmKernel::decode;
    if (tokens <= 16) return GemmKernel::decode_16;
  }
  if (tokens <= 32) return GemmKernel::tile_32;
  return tokens <= 64 ? GemmKernel::tile_64 : GemmKernel::tile_128;
}

/// Blocks enough for every multiprocessor to have loads under way, as long as the partial sums,
/// which are written and read once more, stay under a quarter of the bytes of the weights.
int choose_splits(Device device, GemmKernel kernel, std::int64_t tokens, std::int64_t rows,
                  std::int64_t columns, int bitwidth) {
  if (kernel < GemmKernel::tile_32 || kernel > GemmKernel::tile_128) return 1;
  const std::int64_t token_blocks = kernel == GemmKernel::tile_128 ? (tokens + 127) / 128 : 1;
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows * token_blocks;
  const std::int64_t wanted =
      (kernel == GemmKernel::tile_128 ? 1 : 3) * device.num_multiprocessors / blocks;
  const std::int64_t cheap = columns * bitwidth / 8 / 4 / (8 * tokens);
  const std::int64_t long_enough = columns / (8 * kTileColumns);
  return static_cast<int>(std::max<std::int64_t>(1, std::min({wanted, cheap, long_enough})));
}

}  // namespace

std::int64_t packed_weights_bytes(std::int64_t rows, std::int64_t columns, QuantFormat format) {
  const bool valid = rows > 0 && columns > 0 && rows <= kMaxSide && columns <= kMaxSide &&
                     (format.bitwidth == 3 || format.bitwidth == 4 || format.bitwidth == 8) &&
                     format.group_size >= 0 &&
                     (format.group_size % kHalfColumns == 0 || format.group_size >= columns);
  return valid ? packed_parts(rows, columns, format).total_bytes : 0;
}

GemmPlan plan_dequant_gemm(Device device, Real activation_type, std::int64_t tokens,
                           std::int64_t rows, std::int64_t columns, QuantFormat format) {
  GemmPlan plan{Status::ok, nullptr, GemmKernel::fma, 1, 0};
  if (tokens <= 0 || rows <= 0 || columns <= 0) {
    plan.status = Status::invalid_argument;
    plan.reason = "tokens, rows and columns must be positive";
    return plan;
  }
  plan.reason = why_unsupported(device, activation_type, tokens, rows, columns);
  if (plan.reason == nullptr && packed_weights_bytes(rows, columns, format) == 0)
    plan.reason =
        "weights have 3, 4 or 8 bits, in groups of whole rows or of a multiple of 32 columns";
  if (plan.reason != nullptr) {
    plan.status = Status::unsupported;
    return plan;
  }
  plan.kernel = choose_kernel(device, activation_type, tokens, format.scale_type);
  plan.splits = choose_splits(device, plan.kernel, tokens, rows, columns, format.bitwidth);
  if (plan.splits > 1)
    plan.workspace_bytes = plan.splits * tokens * rows * std::int64_t{sizeof(float)};
  return plan;
}

}  // namespace tessera::kernels::cuda
