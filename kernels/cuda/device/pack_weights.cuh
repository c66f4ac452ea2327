#pragma once

#include "gemm_arguments.cuh"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::cuda {

inline constexpr int kPackThreads = 256;

/// Codes [rows][columns] into tiles. A thread gathers the 32 codes of one lane of one tile.
///
/// grid [lanes of all tiles / kPackThreads], block [kPackThreads].
template <int Bitwidth>
__global__ void pack_weights_kernel(const std::uint8_t* codes, std::int64_t rows,
                                    std::int64_t columns, std::uint32_t* words) {
  const std::int64_t column_tiles = num_tiles(columns, kTileColumns);
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const std::int64_t tile = at / 32;
  if (tile >= num_tiles(rows, kTileRows) * column_tiles) return;
  const int lane = static_cast<int>(at % 32);
  std::uint32_t lane_of_words[lane_words(Bitwidth)] = {};
#pragma unroll
  for (int i = 0; i < kLaneCodes; ++i) {
    const Slot slot{lane, i / 8, i % 8 / 2, i % 2};
    const Place place = place_of(slot);
    const std::int64_t row = tile / column_tiles * kTileRows + place.row;
    const std::int64_t column = tile % column_tiles * kTileColumns + place.column;
    const std::uint32_t code = row < rows && column < columns ? codes[row * columns + column] : 0;
#pragma unroll
    for (int bit = 0; bit < Bitwidth; ++bit) {
      const BitPlace to = bit_place(Bitwidth, slot, bit);
      lane_of_words[to.word] |= (code >> bit & 1u) << to.bit;
    }
  }
#pragma unroll
  for (int w = 0; w < lane_words(Bitwidth); ++w)
    words[tile * tile_words(Bitwidth) + word_in_tile(Bitwidth, lane, w)] = lane_of_words[w];
}

/// Scales and zero points [rows][num_groups] to scale_index; rows that pad the last tile get zeros.
///
/// grid [padded rows * num_groups / kPackThreads], block [kPackThreads].
TESSERA_GLOBAL void pack_scales_kernel(const float* scale, const std::uint8_t* zero_point,
                                       std::int64_t rows, std::int64_t groups, Real scale_type,
                                       void* scales, std::uint8_t* zero_points) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (at >= num_tiles(rows, kTileRows) * kTileRows * groups) return;
  const std::int64_t row = at / groups, group = at % groups, to = scale_index(row, group, groups);
  const float value = row < rows ? scale[at] : 0.0f;
  if (scale_type == Real::f32) {
    static_cast<float*>(scales)[to] = value;
  } else {
    static_cast<std::uint16_t*>(scales)[to] =
        scale_type == Real::f16 ? f32_to_f16(value) : f32_to_bf16(value);
  }
  if (zero_points != nullptr) zero_points[to] = row < rows ? zero_point[at] : std::uint8_t{0};
}

/// out = the sum of the partial products of the splits, in their order.
///
/// grid [tokens * rows / kPackThreads], block [kPackThreads]; partial [splits][tokens][rows].
TESSERA_GLOBAL void sum_splits_kernel(const float* partial, int splits, std::int64_t tokens,
                                      std::int64_t rows, float* out, std::int64_t out_stride) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  if (at >= tokens * rows) return;
  float sum = 0;
  for (int s = 0; s < splits; ++s) sum += partial[s * tokens * rows + at];
  out[at / rows * out_stride + at % rows] = sum;
}

}  // namespace tessera::kernels::cuda
