#pragma once

#include "gemm_arguments.cuh"
#include "unpack.cuh"

namespace tessera::kernels::cuda {

/// A block of the tiled kernel: 128 rows of the weights (four warps of two row tiles) by Tokens
/// tokens, shared by TokenWarps warps beside each other.
template <int Bitwidth, int Tokens>
struct TileShape {
  static constexpr int kRowWarps = 4, kRowTiles = 2 * kRowWarps;
  static constexpr int kTokenWarps = Tokens >= 128 ? 2 : 1;
  static constexpr int kThreads = 32 * kRowWarps * kTokenWarps;
  static constexpr int kWarpTokens = Tokens / kTokenWarps;
  static constexpr int kWeightBytes = kRowTiles * tile_words(Bitwidth) * 4;
  static constexpr int kActivationBytes = Tokens * kTileColumns * 2;
  static constexpr int kStageBytes = kWeightBytes + kActivationBytes;
  // As many stages as fit in what every GPU with tensor cores has (64 KiB), four at most: those
  // hide the memory.
  static constexpr int kStages = 65536 / kStageBytes < 4 ? 65536 / kStageBytes : 4;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

/// Vector (16 bytes, 8 columns) `vector` of a token's 64 columns in shared memory. A quarter of a
/// warp reads four neighbouring vectors of two tokens at once; exchanging the halves of every
/// second token puts them in all 32 banks.
TESSERA_BOTH constexpr int shared_vector(int token, int vector) {
  return token * 8 + (vector ^ (token & 1) << 2);
}

/// Starts the copies of one column tile: weights of 8 row tiles, then activations of Tokens tokens.
template <int Bitwidth, int Tokens>
TESSERA_DEVICE void load_stage(const GemmArguments& p, int first_row_tile, int first_token,
                               int column_tile, unsigned char* stage) {
  using Shape = TileShape<Bitwidth, Tokens>;
  constexpr int kVectors = tile_words(Bitwidth) / 4;
  for (int v = threadIdx.x; v < Shape::kRowTiles * kVectors; v += Shape::kThreads) {
    const int row_tile = first_row_tile + v / kVectors;
    const bool inside = row_tile < p.row_tiles;
    const std::int64_t index =
        static_cast<std::int64_t>(inside ? row_tile : 0) * p.column_tiles + column_tile;
    copy_async_16(stage + v * 16, p.words + index * tile_words(Bitwidth) + v % kVectors * 4,
                  inside ? 16 : 0);
  }
  unsigned char* activations = stage + Shape::kWeightBytes;
  for (int v = threadIdx.x; v < Tokens * 8; v += Shape::kThreads) {
    const int within = v / 8, token = first_token + within,
              column = column_tile * kTileColumns + v % 8 * 8;
    unsigned char* to = activations + shared_vector(within, v % 8) * 16;
    if (p.aligned) {
      const int left = token < p.tokens ? (p.columns - column) * 2 : 0;
      const int num_bytes = left < 0 ? 0 : left < 16 ? left : 16;
      const auto* from = static_cast<const std::uint16_t*>(p.activations);
      if (num_bytes > 0) from += token * p.activation_stride + column;
      copy_async_16(to, from, num_bytes);
    } else {
      *reinterpret_cast<uint4*>(to) = load_activations(p, token, column);
    }
  }
}

/// What a warp keeps of its two row tiles between column tiles: the scales of the group at hand
/// and, on their way, those of the next column tile.
template <class Operand>
struct TileScales {
  float scale[2][2];
  Offsets<Operand> offsets[2];
  RawScales next[2];
  int group = -1;
};

template <class Operand, int Bitwidth>
TESSERA_DEVICE void use_scales(const GemmArguments& p, const RawScales (&raw)[2], int group,
                               TileScales<Operand>& scales) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float zero_point[2];
    decode_scales(p, raw[r], 1 << (Bitwidth - 1), scales.scale[r], zero_point);
    set_offsets<Operand, Bitwidth>(scales.offsets[r], zero_point);
  }
  scales.group = group;
}

TESSERA_DEVICE void fetch_scales(const GemmArguments& p, int row_tile, int group, int lane,
                                 RawScales (&raw)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    raw[r] = RawScales{};
    if (row_tile + r < p.row_tiles && group < p.num_groups)
      raw[r] = load_scales(p, row_tile + r, group, lane);
  }
}

/// sum += 32 rows of weights * the warp's tokens, over half a column tile.
template <class Operand, int Bitwidth, int Half, int Groups>
TESSERA_DEVICE void multiply_half(const std::uint32_t (&words)[2][Bitwidth],
                                  const TileScales<Operand>& scales,
                                  const unsigned char* activations, int first_token, int lane,
                                  float (&sum)[2][Groups][4]) {
  std::uint32_t a[2][2][4];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unpack_step<Operand, Bitwidth, 2 * Half>(words[r], scales.offsets[r], a[r][0]);
    unpack_step<Operand, Bitwidth, 2 * Half + 1>(words[r], scales.offsets[r], a[r][1]);
  }
#pragma unroll
  for (int n = 0; n < Groups; ++n) {
    const int token = first_token + 8 * n + lane / 4;
    const uint4 b = *reinterpret_cast<const uint4*>(activations +
                                                    shared_vector(token, 4 * Half + lane % 4) * 16);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float part[4] = {};
      Operand::mma(part, a[r][0], b.x, b.y);
      Operand::mma(part, a[r][1], b.z, b.w);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[r][n][i] += scales.scale[r][i / 2] * part[i];
    }
  }
}

/// Many tokens: both operands go through shared memory in a ring of stages, copied while earlier
/// ones are multiplied. The weights stay packed there; a warp dequantises its 32 rows into
/// registers and uses them for all of its tokens.
///
/// grid [row blocks][token blocks][splits of k], block [kThreads]. With splits, out holds partial
/// sums that sum_splits_kernel adds up in order.
template <class Operand, int Bitwidth, int Tokens>
__global__ void __launch_bounds__(TileShape<Bitwidth, Tokens>::kThreads)
    tile_gemm_kernel(const GemmArguments p) {
  using Shape = TileShape<Bitwidth, Tokens>;
  constexpr int kStages = Shape::kStages, kGroups = Shape::kWarpTokens / 8;
  unsigned char* shared = dynamic_shared();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row_tile = blockIdx.x * Shape::kRowTiles, first_token = blockIdx.y * Tokens;
  const int warp_tiles = warp % Shape::kRowWarps * 2,
            warp_token = warp / Shape::kRowWarps * Shape::kWarpTokens;
  const int row_tile = first_row_tile + warp_tiles;
  const int begin = blockIdx.z * p.tiles_per_split;
  const int end = min(begin + p.tiles_per_split, p.column_tiles);

#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (begin + s < end)
      load_stage<Bitwidth, Tokens>(p, first_row_tile, first_token, begin + s,
                                   shared + s * Shape::kStageBytes);
    commit_copies();
  }
  TileScales<Operand> scales;
  fetch_scales(p, row_tile, group_of(p, 2 * begin), lane, scales.next);
  float sum[2][kGroups][4] = {};
  for (int c = begin; c < end; ++c) {
    wait_copies<kStages - 2>();
    sync_block();  // the stage is here for all, and all are done with the one that is loaded next
    const int ahead = c + kStages - 1;
    if (ahead < end) {
      load_stage<Bitwidth, Tokens>(p, first_row_tile, first_token, ahead,
                                   shared + (ahead - begin) % kStages * Shape::kStageBytes);
    }
    commit_copies();

    const unsigned char* stage = shared + (c - begin) % kStages * Shape::kStageBytes;
    std::uint32_t words[2][Bitwidth];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      read_words<Bitwidth>(
          reinterpret_cast<const std::uint32_t*>(stage) + (warp_tiles + r) * tile_words(Bitwidth),
          lane, words[r]);
    if (const int group = group_of(p, 2 * c); group != scales.group)
      use_scales<Operand, Bitwidth>(p, scales.next, group, scales);
    fetch_scales(p, row_tile, group_of(p, 2 * c + 2), lane, scales.next);
    const unsigned char* activations = stage + Shape::kWeightBytes;
    multiply_half<Operand, Bitwidth, 0>(words, scales, activations, warp_token, lane, sum);
    if (const int group = group_of(p, 2 * c + 1); group != scales.group) {
      RawScales raw[2];
      fetch_scales(p, row_tile, group, lane, raw);
      use_scales<Operand, Bitwidth>(p, raw, group, scales);
    }
    multiply_half<Operand, Bitwidth, 1>(words, scales, activations, warp_token, lane, sum);
  }

  float* out = p.out + blockIdx.z * p.split_stride;
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int n = 0; n < kGroups; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = (row_tile + r) * kTileRows + lane / 4 + i / 2 * 8;
        const int token = first_token + warp_token + 8 * n + 2 * (lane % 4) + i % 2;
        if (row < p.rows && token < p.tokens) out[token * p.out_stride + row] = sum[r][n][i];
      }
}

}  // namespace tessera::kernels::cuda
