#pragma once

#include "gemm_arguments.cuh"
#include "unpack.cuh"

namespace tessera::kernels::cuda {

// The products without mma.sync: f32 activations on every GPU, and 16-bit ones before sm_75. Sums
// are f32 throughout.

/// Calls f(row in tile, column in tile, code - zero point) for the codes that a lane holds of one
/// half of a tile.
template <int Bitwidth, int Half, int Index, class F>
TESSERA_DEVICE void each_code(const std::uint32_t (&words)[Bitwidth], int lane,
                              const float (&zero_point)[2], F&& f) {
  if constexpr (Index < 16) {
    constexpr Slot kSlot{0, 2 * Half + Index / 8, Index % 8 / 2, Index % 2};
    constexpr Place kPlace =
        place_of(kSlot);  // of lane 0; lane 4 g + t is g rows down and 8 t columns on
    const float code = code_of<Bitwidth, kSlot.step, kSlot.pair, kSlot.half>(words);
    f(kSlot.pair % 2, kPlace.row + lane / 4, kPlace.column + lane % 4 * 8,
      code - zero_point[kSlot.pair % 2]);
    each_code<Bitwidth, Half, Index + 1>(words, lane, zero_point, f);
  }
}

inline constexpr int kFmaDecodeWarps = 8;
inline constexpr int kFmaDecodeTokens = 4;

/// Up to four tokens: as decode_gemm_kernel, with a lane's sums over its own columns and shuffles
/// at the end.
///
/// grid [row tiles], block [32 * kFmaDecodeWarps].
template <Real Type, int Bitwidth>
__global__ void __launch_bounds__(32 * kFmaDecodeWarps) fma_decode_kernel(const GemmArguments p) {
  __shared__ float sums[kFmaDecodeWarps][kFmaDecodeTokens][kTileRows];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row_tile = blockIdx.x;
  float sum[2][kFmaDecodeTokens] = {};
  for (int c = warp; c < p.column_tiles; c += kFmaDecodeWarps) {
    std::uint32_t words[Bitwidth];
    const std::int64_t index = static_cast<std::int64_t>(row_tile) * p.column_tiles + c;
    load_words<Bitwidth>(p.words + index * tile_words(Bitwidth), lane, words);
    const auto half_tile = [&](auto half) {
      constexpr int kHalf = decltype(half)::value;
      const int group = group_of(p, 2 * c + kHalf);
      if (group >= p.num_groups) return;  // beyond the last column
      float scale[2], zero_point[2], part[2][kFmaDecodeTokens] = {};
      decode_scales(p, load_scales(p, row_tile, group, lane), 1 << (Bitwidth - 1), scale,
                    zero_point);
      each_code<Bitwidth, kHalf, 0>(
          words, lane, zero_point, [&](int upper, int, int column, float code) {
#pragma unroll
            for (int token = 0; token < kFmaDecodeTokens; ++token)
              part[upper][token] += code * activation<Type>(p, token, c * kTileColumns + column);
          });
#pragma unroll
      for (int token = 0; token < kFmaDecodeTokens; ++token) {
        sum[0][token] += scale[0] * part[0][token];
        sum[1][token] += scale[1] * part[1][token];
      }
    };
    half_tile(Constant<0>{});
    half_tile(Constant<1>{});
  }
#pragma unroll
  for (int upper = 0; upper < 2; ++upper)
#pragma unroll
    for (int token = 0; token < kFmaDecodeTokens; ++token) {
      float s = sum[upper][token];
      s += shuffle_xor(s, 1);
      s += shuffle_xor(s, 2);
      if (lane % 4 == 0) sums[warp][token][lane / 4 + 8 * upper] = s;
    }
  sync_block();
  const int row = threadIdx.x % kTileRows, token = threadIdx.x / kTileRows;
  if (token >= kFmaDecodeTokens) return;
  float total = 0;
  for (int w = 0; w < kFmaDecodeWarps; ++w) total += sums[w][token][row];
  if (token < p.tokens && row_tile * kTileRows + row < p.rows)
    p.out[token * p.out_stride + row_tile * kTileRows + row] = total;
}

inline constexpr int kFmaRows = 64, kFmaTokens = 64, kFmaThreads = 256;

/// Dequantises half a column tile of kFmaRows rows into shared memory, [column][row] so that
/// neighbours in a warp read neighbours in memory. Four row tiles for eight warps: two warps share
/// a tile, one for each half of its lanes' rows.
template <int Bitwidth, int Half>
TESSERA_DEVICE void dequantise_half(const GemmArguments& p, int first_row_tile, int column_tile,
                                    float (&weights)[kHalfColumns][kFmaRows + 1]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row_tile = first_row_tile + warp;
  if (warp >= kFmaRows / kTileRows) return;
  const int group = group_of(p, 2 * column_tile + Half);
  const bool inside = row_tile < p.row_tiles && group < p.num_groups;
  std::uint32_t words[Bitwidth] = {};
  float scale[2] = {}, zero_point[2] = {};
  if (inside) {
    const std::int64_t index = static_cast<std::int64_t>(row_tile) * p.column_tiles + column_tile;
    load_words<Bitwidth>(p.words + index * tile_words(Bitwidth), lane, words);
    decode_scales(p, load_scales(p, row_tile, group, lane), 1 << (Bitwidth - 1), scale, zero_point);
  }
  each_code<Bitwidth, Half, 0>(
      words, lane, zero_point, [&](int upper, int row, int column, float code) {
        weights[column - Half * kHalfColumns][warp * kTileRows + row] = scale[upper] * code;
      });
}

/// Any number of tokens: 64 rows by 64 tokens a block, 16 sums a thread, plain multiply-adds from
/// shared memory.
///
/// grid [row blocks][token blocks], block [kFmaThreads].
template <Real Type, int Bitwidth>
__global__ void __launch_bounds__(kFmaThreads) fma_gemm_kernel(const GemmArguments p) {
  __shared__ float weights[kHalfColumns][kFmaRows + 1];
  __shared__ float activations[kHalfColumns][kFmaTokens + 1];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;  // rows x + 16 i, tokens y + 16 j
  const int first_row = blockIdx.x * kFmaRows, first_token = blockIdx.y * kFmaTokens;
  float sum[4][4] = {};
  for (int c = 0; c < p.column_tiles; ++c) {
    const auto half_tile = [&](auto half) {
      constexpr int kHalf = decltype(half)::value;
      dequantise_half<Bitwidth, kHalf>(p, first_row / kTileRows, c, weights);
      for (int i = threadIdx.x; i < kHalfColumns * kFmaTokens; i += kFmaThreads) {
        const int column = i % kHalfColumns, token = i / kHalfColumns;
        activations[column][token] = activation<Type>(
            p, first_token + token, c * kTileColumns + kHalf * kHalfColumns + column);
      }
      sync_block();
      for (int k = 0; k < kHalfColumns; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            sum[i][j] += weights[k][x + 16 * i] * activations[k][y + 16 * j];
      sync_block();
    };
    half_tile(Constant<0>{});
    half_tile(Constant<1>{});
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + x + 16 * i, token = first_token + y + 16 * j;
      if (row < p.rows && token < p.tokens) p.out[token * p.out_stride + row] = sum[i][j];
    }
}

}  // namespace tessera::kernels::cuda
