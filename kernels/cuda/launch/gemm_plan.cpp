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

/// A block of the tiled kernel, and what a column tile takes it on an H100: alone on a
/// multiprocessor, and where others keep the tensor cores busy.
struct Tile {
  int tokens, blocks;  // of a block; that a multiprocessor holds
  double alone_us, busy_us;
};
Tile tile_of(GemmKernel kernel) {
  if (kernel == GemmKernel::tile_32) return {32, 3, 0.6, 0.14};
  if (kernel == GemmKernel::tile_64) return {64, 2, 0.75, 0.28};
  return {128, 1, 0.9, 0.56};
}

/// Time of a product whose k is split. A block fills its ring first, about as long as four tiles
/// take; the partial sums are written and read once more through L2, by another launch.
double split_us(Device device, const Tile& tile, std::int64_t tokens, std::int64_t rows,
                std::int64_t column_tiles, std::int64_t splits) {
  constexpr double kLaunchUs = 2, kL2BytesPerUs = 5e6;
  constexpr int kFillTiles = 4;
  const std::int64_t sms = device.num_multiprocessors;
  const std::int64_t blocks = num_tiles(rows, kBlockRows) * num_tiles(tokens, tile.tokens) * splits;
  const auto tile_us = [&](std::int64_t resident) {
    return std::max(tile.alone_us, static_cast<double>(resident) * tile.busy_us);
  };
  const std::int64_t at_once = sms * tile.blocks, left = blocks % at_once;
  const double round_us = static_cast<double>(blocks / at_once) * tile_us(tile.blocks) +
                          (left > 0 ? tile_us((left + sms - 1) / sms) : 0);
  const std::int64_t tiles = (column_tiles + splits - 1) / splits + kFillTiles;
  const double sums_us =
      splits == 1 ? 0 : kLaunchUs + static_cast<double>(splits * tokens * rows * 8) / kL2BytesPerUs;
  return round_us * static_cast<double>(tiles) + sums_us;
}

/// The cheapest number of splits that leaves eight column tiles for each.
int choose_splits(Device device, GemmKernel kernel, std::int64_t tokens, std::int64_t rows,
                  std::int64_t columns) {
  if (kernel < GemmKernel::tile_32 || kernel > GemmKernel::tile_128) return 1;
  const Tile tile = tile_of(kernel);
  const std::int64_t column_tiles = num_tiles(columns, kTileColumns);
  std::int64_t best = 1;
  double least = split_us(device, tile, tokens, rows, column_tiles, 1);
  for (std::int64_t splits = 2; splits <= std::min<std::int64_t>(column_tiles / 8, 16); ++splits) {
    const double us = split_us(device, tile, tokens, rows, column_tiles, splits);
    if (us < least) best = splits, least = us;
  }
  // As many as have something to do, each as long as the others.
  const std::int64_t each = (column_tiles + best - 1) / best;
  return static_cast<int>((column_tiles + each - 1) / each);
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
  plan.splits = choose_splits(device, plan.kernel, tokens, rows, columns);
  if (plan.splits > 1)
    plan.workspace_bytes = plan.splits * tokens * rows * std::int64_t{sizeof(float)};
  return plan;
}

}  // namespace tessera::kernels::cuda
