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
  /// Blocks that a multiprocessor shall hold: eight warps or more, whose sums fit in its registers.
  static constexpr int kBlocks = Tokens >= 128 ? 1 : Tokens >= 64 ? 2 : 3;
};

/// Vector (16 bytes, 8 columns) `vector` of a token's 64 columns in shared memory. A quarter of a
/// warp reads four neighbouring vectors of two tokens at once; exchanging the halves of every
/// second token puts them in all 32 banks.
TESSERA_BOTH constexpr int shared_vector(int token, int vector) {
  return token * 8 + (vector ^ (token & 1) << 2);
}

/// What a thread copies of every column tile: its vectors of the weights of 8 row tiles and of the
/// activations of Tokens tokens. Only the column moves on, so a copy costs little more than its
/// instruction.
template <int Bitwidth, int Tokens>
class StageCopies {
  using Shape = TileShape<Bitwidth, Tokens>;
  static constexpr int kTileVectors = tile_words(Bitwidth) / 4;
  static constexpr int kWeightVectors = Shape::kRowTiles * kTileVectors;
  static constexpr int kWeights = (kWeightVectors + Shape::kThreads - 1) / Shape::kThreads;
  static constexpr int kTokenStep = Shape::kThreads / 8;  // even: one place in shared memory
  static constexpr int kActivations = Tokens / kTokenStep;

 public:
  TESSERA_DEVICE StageCopies(const GemmArguments& p, int first_row_tile, int first_token,
                             int column_tile)
      : first_token_(first_token + static_cast<int>(threadIdx.x) / 8),
        left_(p.columns - column_tile * kTileColumns - static_cast<int>(threadIdx.x) % 8 * 8) {
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * Shape::kThreads;
      const int row_tile = first_row_tile + v / kTileVectors;
      inside_[i] = v < kWeightVectors && row_tile < p.row_tiles;
      const std::int64_t tile =
          static_cast<std::int64_t>(inside_[i] ? row_tile : 0) * p.column_tiles + column_tile;
      words_[i] = p.words + tile * tile_words(Bitwidth) + v % kTileVectors * 4;
    }
#pragma unroll
    for (int i = 0; i < kActivations; ++i) {
      const int token = first_token_ + i * kTokenStep;
      activations_[i] = static_cast<const std::uint16_t*>(p.activations) +
                        (token < p.tokens ? token : 0) * p.activation_stride + p.columns - left_;
    }
  }

  /// Starts the copies of the column tile at hand, and moves on to the next one.
  TESSERA_DEVICE void start(const GemmArguments& p, unsigned char* stage) {
#pragma unroll
    for (int i = 0; i < kWeights; ++i) {
      const int v = static_cast<int>(threadIdx.x) + i * Shape::kThreads;
      if (kWeightVectors % Shape::kThreads == 0 || v < kWeightVectors)
        copy_async_16(stage + v * 16, words_[i], inside_[i] ? 16 : 0);
      words_[i] += tile_words(Bitwidth);
    }
    unsigned char* to =
        stage + Shape::kWeightBytes +
        shared_vector(static_cast<int>(threadIdx.x) / 8, static_cast<int>(threadIdx.x) % 8) * 16;
    constexpr int kStepBytes = kTokenStep * kTileColumns * 2;
    if (p.aligned) {
      const int num_bytes = left_ < 0 ? 0 : left_ < 8 ? 2 * left_ : 16;
#pragma unroll
      for (int i = 0; i < kActivations; ++i) {
        copy_async_16(to + i * kStepBytes, activations_[i],
                      first_token_ + i * kTokenStep < p.tokens ? num_bytes : 0);
        activations_[i] += kTileColumns;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kActivations; ++i)
        *reinterpret_cast<uint4*>(to + i * kStepBytes) =
            load_activations(p, first_token_ + i * kTokenStep, p.columns - left_);
    }
    left_ -= kTileColumns;
  }

 private:
  const std::uint32_t* words_[kWeights];
  const std::uint16_t* activations_[kActivations];
  bool inside_[kWeights];
  int first_token_, left_;  // columns from the thread's vector to the end of the matrix
};

/// What a warp keeps of its two row tiles from group to group: what the group at hand is multiplied
/// with and, on their way, the scales of the next one. No branches: there is one group after
/// another in every warp, and what lies beyond the matrix is computed like its last rows and not
/// written.
template <class Operand, int Bitwidth>
class TileScales {
 public:
  float scale[2][2];
  Offsets<Operand> offsets[2];

  TESSERA_DEVICE TileScales(const GemmArguments& p, int row_tile, int lane, int first_half)
      : groups_(p.num_groups - group_of(p, first_half)) {
    const int group = p.num_groups - groups_;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t row =
          static_cast<std::int64_t>(min(row_tile + r, p.row_tiles - 1)) * kTileRows + lane / 4;
      const std::int64_t at = scale_index(row, group, p.num_groups);
      scales_[r] =
          static_cast<const unsigned char*>(p.scales) + at * (p.scale_type == Real::f32 ? 4 : 2);
      // Without zero points nothing is read from there.
      zero_points_[r] =
          (p.zero_points != nullptr ? p.zero_points : static_cast<const std::uint8_t*>(p.scales)) +
          at;
      zeros_[r] = 0x0101u << (Bitwidth - 1);
    }
    fetch(p);
    left_ = (group + 1) * p.group_halves - first_half;
    use(p);
  }

  /// After half a column tile: whether it was the group's last.
  TESSERA_DEVICE bool ends() { return --left_ == 0; }

  TESSERA_DEVICE void next(const GemmArguments& p) {
    left_ = p.group_halves;
    use(p);
  }

 private:
  TESSERA_DEVICE void fetch(const GemmArguments& p) {
    const bool is_f32 = p.scale_type == Real::f32, wanted = groups_ > 0;
    --groups_;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      load_where(wanted && is_f32, raw_[r], scales_[r]);
      load_where(wanted && !is_f32, raw_[r].x, scales_[r]);
      load_16_where(wanted && p.zero_points != nullptr, zeros_[r], zero_points_[r]);
      scales_[r] += kTileRows * (is_f32 ? 4 : 2);
      zero_points_[r] += kTileRows;
    }
  }

  // The loads that it starts last as long as the group.
  TESSERA_DEVICE void use(const GemmArguments& p) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float zero_point[2];
#pragma unroll
      for (int upper = 0; upper < 2; ++upper) {
        const auto bits = static_cast<std::uint16_t>(raw_[r].x >> (16 * upper));
        const std::uint32_t of_32 = upper ? raw_[r].y : raw_[r].x;
        scale[r][upper] = p.scale_type == Real::f32 ? __uint_as_float(of_32) : scale_of_16(p, bits);
        // A byte under the exponent of 2^23 is 2^23 + byte.
        zero_point[upper] =
            __uint_as_float(pick_bytes(zeros_[r], 0x4b000000, 0x7440 + upper)) - 8388608.0f;
      }
      set_offsets<Operand, Bitwidth>(offsets[r], zero_point);
    }
    fetch(p);
  }

  const unsigned char* scales_[2];
  const std::uint8_t* zero_points_[2];
  int groups_, left_;  // groups that have not been fetched; halves of the one at hand
  uint2 raw_[2] = {};
  std::uint32_t zeros_[2];
};

/// The sums of a warp, 32 rows by its tokens, as the operand c.
template <int Groups>
using TileSums = float[2][Groups][4];

/// Activations of four groups of eight tokens and half a column tile: their products do not wait
/// for each other.
inline constexpr int kChunkGroups = 4;
using TileChunk = uint4[kChunkGroups];

/// Reads the chunk `index` of a stage, counted [half][groups of tokens].
template <int Groups>
TESSERA_DEVICE void read_chunk(const unsigned char* activations, int first_token, int lane,
                               int index, TileChunk& chunk) {
  constexpr int kChunks = Groups / kChunkGroups;  // of a half
#pragma unroll
  for (int n = 0; n < kChunkGroups; ++n) {
    const int token = first_token + 8 * (index % kChunks * kChunkGroups + n) + lane / 4;
    chunk[n] = *reinterpret_cast<const uint4*>(
        activations + shared_vector(token, 4 * (index / kChunks) + lane % 4) * 16);
  }
}

/// The operand `a` of two row tiles and the two steps of half a column tile.
using TileOperands = std::uint32_t[2][2][4];

template <class Operand, int Bitwidth, int Half>
TESSERA_DEVICE void unpack_half(const std::uint32_t (&words)[2][Bitwidth],
                                const TileScales<Operand, Bitwidth>& scales, TileOperands& a) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    unpack_step<Operand, Bitwidth, 2 * Half>(words[r], scales.offsets[r], a[0][r]);
    unpack_step<Operand, Bitwidth, 2 * Half + 1>(words[r], scales.offsets[r], a[1][r]);
  }
}

/// part += 32 rows of weights * the tokens of a chunk, from group `first` on.
template <class Operand, int Groups>
TESSERA_DEVICE void multiply_chunk(const TileOperands& a, const TileChunk& b, int first,
                                   TileSums<Groups>& part) {
#pragma unroll
  for (int step = 0; step < 2; ++step)
#pragma unroll
    for (int n = 0; n < kChunkGroups; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        Operand::mma(part[r][first + n], a[step][r], step == 0 ? b[n].x : b[n].z,
                     step == 0 ? b[n].y : b[n].w);
}

/// sum += scale * part, for the group that part has been the product of.
template <class Operand, int Bitwidth, int Groups>
TESSERA_DEVICE void add_group(const TileScales<Operand, Bitwidth>& scales, TileSums<Groups>& part,
                              TileSums<Groups>& sum) {
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int n = 0; n < Groups; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum[r][n][i] += scales.scale[r][i / 2] * part[r][n][i];
        part[r][n][i] = 0;
      }
}

/// Many tokens: both operands go through shared memory in a ring of stages, copied while earlier
/// ones are multiplied. The weights stay packed there; a warp dequantises its 32 rows into
/// registers and uses them for all of its tokens. Products of a group add up unscaled. While a
/// chunk is multiplied the next one is read, across the end of a stage too, so that the tensor
/// cores do not wait for shared memory.
///
/// grid [row blocks][token blocks][splits of k], block [kThreads]. With splits, out holds partial
/// sums that sum_splits_kernel adds up in order.
template <class Operand, int Bitwidth, int Tokens>
__global__ void __launch_bounds__(TileShape<Bitwidth, Tokens>::kThreads,
                                  TileShape<Bitwidth, Tokens>::kBlocks)
    tile_gemm_kernel(const GemmArguments p) {
  using Shape = TileShape<Bitwidth, Tokens>;
  constexpr int kStages = Shape::kStages, kGroups = Shape::kWarpTokens / 8;
  constexpr int kChunks = kGroups / kChunkGroups;  // of a half
  static_assert(kGroups % kChunkGroups == 0);
  unsigned char* shared = dynamic_shared();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_row_tile = blockIdx.x * Shape::kRowTiles, first_token = blockIdx.y * Tokens;
  const int warp_tiles = warp % Shape::kRowWarps * 2,
            warp_token = warp / Shape::kRowWarps * Shape::kWarpTokens;
  const int row_tile = first_row_tile + warp_tiles;
  const int begin = blockIdx.z * p.tiles_per_split;
  const int end = min(begin + p.tiles_per_split, p.column_tiles);

  StageCopies<Bitwidth, Tokens> copies(p, first_row_tile, first_token, begin);
#pragma unroll
  for (int s = 0; s < kStages; ++s) {
    if (begin + s < end) copies.start(p, shared + s * Shape::kStageBytes);
    commit_copies();
  }
  TileScales<Operand, Bitwidth> scales(p, row_tile, lane, 2 * begin);
  TileSums<kGroups> part = {}, sum = {};
  unsigned char* stage = shared;
  std::uint32_t words[2][Bitwidth];
  TileChunk chunks[2];
  // The words of the stage at hand and its first chunk.
  const auto enter_stage = [&] {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      read_words<Bitwidth>(
          reinterpret_cast<const std::uint32_t*>(stage) + (warp_tiles + r) * tile_words(Bitwidth),
          lane, words[r]);
    read_chunk<kGroups>(stage + Shape::kWeightBytes, warp_token, lane, 0, chunks[0]);
  };
  wait_copies<kStages - 1>();
  sync_block();
  enter_stage();
  for (int c = begin; c < end; ++c) {
    TileOperands a;
#pragma unroll
    for (int i = 0; i < 2 * kChunks; ++i) {
      if (i == 0) unpack_half<Operand, Bitwidth, 0>(words, scales, a);
      if (i == kChunks) unpack_half<Operand, Bitwidth, 1>(words, scales, a);
      if (i + 1 < 2 * kChunks) {
        read_chunk<kGroups>(stage + Shape::kWeightBytes, warp_token, lane, i + 1,
                            chunks[(i + 1) % 2]);
      } else {
        wait_copies<kStages - 2>();
        sync_block();  // the next stage is here for all, and all are done reading this one
        if (c + kStages < end) copies.start(p, stage);
        commit_copies();
        stage += Shape::kStageBytes;
        if (stage == shared + Shape::kSharedBytes) stage = shared;
        if (c + 1 < end) enter_stage();
      }
      multiply_chunk<Operand, kGroups>(a, chunks[i % 2], i % kChunks * kChunkGroups, part);
      if ((i + 1) % kChunks == 0 && scales.ends()) {
        add_group<Operand, Bitwidth, kGroups>(scales, part, sum);
        scales.next(p);
      }
    }
  }
  add_group<Operand, Bitwidth, kGroups>(scales, part, sum);  // of a group that is not at its end

  float* out = p.out + blockIdx.z * p.split_stride;
#pragma unroll
  for (int n = 0; n < kGroups; ++n)
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const int token = first_token + warp_token + 8 * n + 2 * (lane % 4) + odd;
      if (token >= p.tokens) continue;
      float* of_token = out + token * p.out_stride + row_tile * kTileRows + lane / 4;
      const int rows = p.rows - row_tile * kTileRows - lane / 4;
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int upper = 0; upper < 2; ++upper)
          if (r * kTileRows + 8 * upper < rows)
            of_token[r * kTileRows + 8 * upper] = sum[r][n][2 * upper + odd];
    }
}

}  // namespace tessera::kernels::cuda
