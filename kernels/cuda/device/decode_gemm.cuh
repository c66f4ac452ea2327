#pragma once

#include "gemm_arguments.cuh"
#include "unpack.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeTokens = 8;  ///< columns of an mma; fewer tokens leave some unused

/// Bytes that one lane has under way: four loads of 16 bytes or as near as the bitwidth allows.
template <int Bitwidth>
inline constexpr int kDecodeDepth = Bitwidth == 8 ? 2 : 4;

/// A tile and what multiplies it, in the registers of a lane.
template <int Bitwidth>
struct DecodeTile {
  std::uint32_t words[Bitwidth];
  uint4 activations[2];  // columns 8 t .. 8 t + 7 of both halves, token g
  RawScales scales;      // of the first half
};

template <int Bitwidth>
TESSERA_DEVICE void load_tile(const GemmArguments& p, int row_tile, int column_tile, int lane,
                              DecodeTile<Bitwidth>& tile) {
  if (column_tile >= p.column_tiles) return;
  const std::int64_t index = static_cast<std::int64_t>(row_tile) * p.column_tiles + column_tile;
  load_words<Bitwidth>(p.words + index * tile_words(Bitwidth), lane, tile.words);
#pragma unroll
  for (int half = 0; half < 2; ++half)
    tile.activations[half] = load_activations(
        p, lane / 4, column_tile * kTileColumns + half * kHalfColumns + lane % 4 * 8);
  tile.scales = load_scales(p, row_tile, group_of(p, 2 * column_tile), lane);
}

/// sum += tile * activations: per half two mma with sums of integers times activations, then the
/// scale.
template <class Operand, int Bitwidth>
TESSERA_DEVICE void multiply_tile(const GemmArguments& p, int row_tile, int column_tile, int lane,
                                  const DecodeTile<Bitwidth>& tile, float (&sum)[4]) {
  float scale[2], zero_point[2];
  Offsets<Operand> offsets;
  const int first_group = group_of(p, 2 * column_tile);
  decode_scales(p, tile.scales, 1 << (Bitwidth - 1), scale, zero_point);
  set_offsets<Operand, Bitwidth>(offsets, zero_point);

  std::uint32_t a[4];
  float part[4] = {};
  unpack_step<Operand, Bitwidth, 0>(tile.words, offsets, a);
  Operand::mma(part, a, tile.activations[0].x, tile.activations[0].y);
  unpack_step<Operand, Bitwidth, 1>(tile.words, offsets, a);
  Operand::mma(part, a, tile.activations[0].z, tile.activations[0].w);
  const int second_group = group_of(p, 2 * column_tile + 1);
  if (second_group != first_group) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] += scale[i / 2] * part[i];
      part[i] = 0;
    }
    if (second_group <
        p.num_groups) {  // else: beyond the last column, where the activations are zero
      decode_scales(p, load_scales(p, row_tile, second_group, lane), 1 << (Bitwidth - 1), scale,
                    zero_point);
      set_offsets<Operand, Bitwidth>(offsets, zero_point);
    }
  }
  unpack_step<Operand, Bitwidth, 2>(tile.words, offsets, a);
  Operand::mma(part, a, tile.activations[1].x, tile.activations[1].y);
  unpack_step<Operand, Bitwidth, 3>(tile.words, offsets, a);
  Operand::mma(part, a, tile.activations[1].z, tile.activations[1].w);
#pragma unroll
  for (int i = 0; i < 4; ++i) sum[i] += scale[i / 2] * part[i];
}

/// Few tokens: the weights are read once and that is the time it takes. A block owns one row tile;
/// its warps take the column tiles in turn, so that together they read one run of memory, and add
/// up in shared memory at the end, always in the same order. Weights and activations go from memory
/// to the tensor cores' operands in registers: each is used once, so shared memory would only add a
/// step. Tensor cores even for one token: seven eighths of the product are wasted, but a lane
/// spends 1.5 instructions on a weight instead of 3.
///
/// grid [row tiles], block [32 * kDecodeWarps]; tokens <= kDecodeTokens.
template <class Operand, int Bitwidth>
__global__ void __launch_bounds__(32 * kDecodeWarps, 2) decode_gemm_kernel(const GemmArguments p) {
  __shared__ float sums[kDecodeWarps][4][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row_tile = blockIdx.x;
  constexpr int kDepth = kDecodeDepth<Bitwidth>;

  // A ring of kDepth tiles: each is loaded again as soon as it has been used, so loads never stop.
  DecodeTile<Bitwidth> ring[kDepth];
#pragma unroll
  for (int i = 0; i < kDepth; ++i) load_tile(p, row_tile, warp + i * kDecodeWarps, lane, ring[i]);
  float sum[4] = {};
  for (int first = warp; first < p.column_tiles; first += kDepth * kDecodeWarps) {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int column_tile = first + i * kDecodeWarps;
      if (column_tile < p.column_tiles) {
        const DecodeTile<Bitwidth> tile = ring[i];
        load_tile(p, row_tile, column_tile + kDepth * kDecodeWarps, lane, ring[i]);
        multiply_tile<Operand, Bitwidth>(p, row_tile, column_tile, lane, tile, sum);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) sums[warp][i][lane] = sum[i];
  sync_block();
  if (threadIdx.x >= 128) return;
  const int i = warp;  // four warps, one for each register of the operand c
  float total = 0;
#pragma unroll
  for (int w = 0; w < kDecodeWarps; ++w) total += sums[w][i][lane];
  const int row = row_tile * kTileRows + lane / 4 + i / 2 * 8;
  const int token = 2 * (lane % 4) + i % 2;
  if (row < p.rows && token < p.tokens) p.out[token * p.out_stride + row] = total;
}

}  // namespace tessera::kernels::cuda
