#pragma once

#include "decode_codes.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kDecodeTokens = 8;  ///< columns of an mma; fewer tokens leave some unused
inline constexpr int kUnitTiles = kUnitColumns / kTileColumns;
inline constexpr int kUnitHalves = 2 * kUnitTiles;

/// A decode kernel. Size: its row tiles, and its token groups of kDecodeTokens, which are as many:
/// the activations of two token groups are worth reading for two row tiles. Span: halves of a
/// column tile from one scale to the next, 1, 2 or 4; groups of more columns repeat theirs.
template <class Operand, int Bitwidth, int SizeOf, int SpanOf>
struct DecodeShape {
  using Codes = DecodeCodes<Operand, Bitwidth>;
  static constexpr int kBits = Bitwidth, kSize = SizeOf, kSpan = SpanOf;
  static constexpr int kScales = kUnitHalves / kSpan;  // of a unit and row tile
  /// Of the ring: as many units as registers allow.
  static constexpr int kDepth = Bitwidth == 8 && kSize == 2                 ? 1
                                : Bitwidth == 8 || kSpan == 1 || kSize == 2 ? 2
                                                                            : 4;
  static constexpr int kBlocks = kSize == 1 ? 2 : 1;  // to be had on a multiprocessor at least
};

/// The weights of a unit, in the registers of a lane.
template <class Shape>
struct DecodeUnit {
  std::uint32_t words[Shape::kSize][kUnitTiles][Shape::kBits];
  RawDecodeScale scales[Shape::kSize][Shape::kScales];
};

/// The activations of a unit: columns 8 t .. 8 t + 7 of each half, token g of each token group.
template <class Shape>
struct DecodeActivations {
  uint4 at[Shape::kSize][kUnitHalves];
};

/// Where a lane's part of the unit at hand lies. Pointers move on from unit to unit, so that a load
/// costs one instruction.
template <class Shape>
struct DecodePlace {
  // Of each row tile: the lane's first vector, and for 3 bits its second.
  const std::uint32_t* words[Shape::kSize][2];
  const std::uint16_t* activations[Shape::kSize];  // of each token
  bool inside[Shape::kSize];                       // the token is one
  const std::uint16_t* scales[Shape::kSize];       // of group 0
  const std::uint8_t* zero_points[Shape::kSize];
};

template <class Shape>
TESSERA_DEVICE DecodePlace<Shape> place_of_lane(const GemmArguments& p, int first_row_tile,
                                                int unit, int lane) {
  constexpr int kBits = Shape::kBits;
  DecodePlace<Shape> place;
#pragma unroll
  for (int i = 0; i < Shape::kSize; ++i) {
    // A row tile beyond the last is computed like the last one, and not written.
    const std::int64_t row_tile = min(first_row_tile + i, p.row_tiles - 1);
    const std::uint32_t* tile =
        p.words + (row_tile * p.column_tiles + unit * kUnitTiles) * tile_words(kBits);
    place.words[i][0] = tile + word_in_tile(kBits, lane, 0);
    place.words[i][1] = tile + word_in_tile(kBits, lane, kBits == 3 ? 2 : 0);
    const int token = kDecodeTokens * i + lane / 4;
    place.inside[i] = token < p.tokens;
    place.activations[i] = static_cast<const std::uint16_t*>(p.activations) +
                           (place.inside[i] ? token : 0) * p.activation_stride +
                           unit * kUnitColumns + lane % 4 * 8;
    const std::int64_t scale = scale_index(row_tile * kTileRows + lane / 4, 0, p.num_groups);
    place.scales[i] = static_cast<const std::uint16_t*>(p.scales) + scale;
    place.zero_points[i] = p.zero_points + scale;
  }
  return place;
}

template <class Shape>
TESSERA_DEVICE void advance(DecodePlace<Shape>& place, int units) {
#pragma unroll
  for (int i = 0; i < Shape::kSize; ++i) {
    place.words[i][0] += units * kUnitTiles * tile_words(Shape::kBits);
    place.words[i][1] += units * kUnitTiles * tile_words(Shape::kBits);
    place.activations[i] += units * kUnitColumns;
  }
}

/// Words of the tile that is `ahead` tiles further.
template <class Shape>
TESSERA_DEVICE void load_tile_words(const DecodePlace<Shape>& place, int r, int ahead, bool wanted,
                                    std::uint32_t (&words)[Shape::kBits]) {
  constexpr int kBits = Shape::kBits;
  const int skip = ahead * tile_words(kBits);
  if constexpr (kBits == 3) {
    uint2 v = {words[0], words[1]};
    load_once_where(wanted, v, place.words[r][0] + skip);
    words[0] = v.x;
    words[1] = v.y;
    load_once_where(wanted, words[2], place.words[r][1] + skip);
  } else {
#pragma unroll
    for (int i = 0; i < kBits; i += 4) {
      uint4 v = {words[i], words[i + 1], words[i + 2], words[i + 3]};
      load_once_where(wanted, v, place.words[r][0] + skip + word_in_tile(kBits, 0, i));
      words[i] = v.x;
      words[i + 1] = v.y;
      words[i + 2] = v.z;
      words[i + 3] = v.w;
    }
  }
}

/// Scales and zero points of a lane's two rows.
template <class Shape>
TESSERA_DEVICE void load_decode_scale(const GemmArguments& p, const DecodePlace<Shape>& place,
                                      int r, int group, bool wanted, RawDecodeScale& raw) {
  const unsigned skip = static_cast<unsigned>(group) * kTileRows;
  load_where(wanted, raw.scales, place.scales[r] + skip);
  load_16_where(wanted && p.zero_points != nullptr, raw.zero_points, place.zero_points[r] + skip);
}

/// Group of the scale `s` of a unit.
template <class Shape>
TESSERA_DEVICE int group_of_unit(const GemmArguments& p, int unit, int s) {
  constexpr int kSpan = Shape::kSpan;
  return kSpan == kUnitHalves ? group_of_tile(p, kUnitTiles * unit)
                              : group_of(p, kUnitHalves * unit + s * kSpan);
}

/// Starts the loads of the words of one tile of the unit that is `ahead` units after the one at
/// hand.
template <class Shape>
TESSERA_DEVICE void load_unit_words(const DecodePlace<Shape>& place, int tile, int ahead,
                                    bool wanted, DecodeUnit<Shape>& out) {
#pragma unroll
  for (int r = 0; r < Shape::kSize; ++r)
    load_tile_words(place, r, ahead * kUnitTiles + tile, wanted, out.words[r][tile]);
}

template <class Shape>
TESSERA_DEVICE void load_unit_scales(const GemmArguments& p, const DecodePlace<Shape>& place,
                                     int unit, bool wanted, DecodeUnit<Shape>& out) {
#pragma unroll
  for (int r = 0; r < Shape::kSize; ++r)
#pragma unroll
    for (int s = 0; s < Shape::kScales; ++s)
      load_decode_scale(p, place, r, group_of_unit<Shape>(p, unit, s), wanted, out.scales[r][s]);
}

/// The activations of one tile of the unit `ahead` units after the one at hand.
template <class Shape>
TESSERA_DEVICE void load_unit_activations(const DecodePlace<Shape>& place, int tile, int ahead,
                                          bool wanted, DecodeActivations<Shape>& out) {
#pragma unroll
  for (int n = 0; n < Shape::kSize; ++n)
#pragma unroll
    for (int half = 2 * tile; half < 2 * tile + 2; ++half)
      load_where(wanted && place.inside[n], out.at[n][half],
                 place.activations[n] + (ahead * kUnitHalves + half) * kHalfColumns);
}

/// The unit at hand where it lies across the end of the matrix, or where activations are not
/// aligned: zeros for what lies beyond.
template <class Shape>
TESSERA_DEVICE void load_last_unit(const GemmArguments& p, const DecodePlace<Shape>& place,
                                   int unit, int lane, DecodeUnit<Shape>& out,
                                   DecodeActivations<Shape>& activations) {
#pragma unroll
  for (int r = 0; r < Shape::kSize; ++r) {
#pragma unroll
    for (int tile = 0; tile < kUnitTiles; ++tile) {
#pragma unroll
      for (int w = 0; w < Shape::kBits; ++w) out.words[r][tile][w] = 0;
      load_tile_words(place, r, tile, unit * kUnitTiles + tile < p.column_tiles,
                      out.words[r][tile]);
    }
#pragma unroll
    for (int s = 0; s < Shape::kScales; ++s) {
      const int group = group_of_unit<Shape>(p, unit, s);
      load_decode_scale(p, place, r, group, group < p.num_groups, out.scales[r][s]);
    }
#pragma unroll
    for (int half = 0; half < kUnitHalves; ++half)
      activations.at[r][half] =
          load_activations(p, kDecodeTokens * r + lane / 4,
                           (unit * kUnitHalves + half) * kHalfColumns + lane % 4 * 8);
  }
}

/// Loads fill it; a symmetric format's zero point, which is nowhere, is there from the beginning.
template <class Shape>
TESSERA_DEVICE DecodeUnit<Shape> empty_unit() {
  DecodeUnit<Shape> unit{};
#pragma unroll
  for (int r = 0; r < Shape::kSize; ++r)
#pragma unroll
    for (int s = 0; s < Shape::kScales; ++s)
      unit.scales[r][s].zero_points = 0x0101u << (Shape::kBits - 1);
  return unit;
}

/// The sums of a lane: of its row tiles and token groups, as the operand c.
template <int Size>
struct DecodeSums {
  float at[Size][Size][4];
};

/// sum += unit * activations. `done(tile)` is called when a tile's words and activations
/// have been used.
template <class Shape, class Done>
TESSERA_DEVICE void multiply_unit(const GemmArguments& p, const std::uint32_t (&ones)[4],
                                  const DecodeUnit<Shape>& unit,
                                  const DecodeActivations<Shape>& activations,
                                  DecodeSums<Shape::kSize>& sum, Done&& done) {
  using Codes = typename Shape::Codes;
  using Operand = typename Codes::Operand;
  constexpr int kSize = Shape::kSize;
  DecodeSums<kSize> part{};
  float one_sum[kSize][4] = {};
#pragma unroll
  for (int half = 0; half < kUnitHalves; ++half) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int n = 0; n < kSize; ++n) {
        const uint4 x = activations.at[n][half];
        Operand::mma(one_sum[n], ones, step == 0 ? x.x : x.z, step == 0 ? x.y : x.w);
      }
#pragma unroll
      for (int r = 0; r < kSize; ++r) {
        std::uint32_t a[4];
        take_step<Codes>(unit.words[r][half / 2], half % 2 * 2 + step, a);
#pragma unroll
        for (int n = 0; n < kSize; ++n) {
          const uint4 x = activations.at[n][half];
          Operand::mma(part.at[r][n], a, step == 0 ? x.x : x.z, step == 0 ? x.y : x.w);
        }
      }
    }
    if (half % 2 == 1) done(half / 2);
    if ((half + 1) % Shape::kSpan != 0) continue;
#pragma unroll
    for (int r = 0; r < kSize; ++r) {
      const DecodeScale scale = decode_scale<Codes>(p, unit.scales[r][half / Shape::kSpan]);
#pragma unroll
      for (int n = 0; n < kSize; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float weighted = part.at[r][n][i] - scale.excess[i / 2] * one_sum[n][i];
          sum.at[r][n][i] += scale.scale[i / 2] * weighted;
        }
    }
    part = {};
#pragma unroll
    for (int n = 0; n < kSize; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) one_sum[n][i] = 0;
  }
}

/// Few tokens: the weights are read once and that is the time it takes. A block owns Size row
/// tiles; its warps take the units of 128 columns in turn, so that together they read one run of
/// memory, and add up in shared memory at the end, always in the same order. Weights and
/// activations go from memory to the tensor cores' operands in registers: each is used once, so
/// shared memory would only add a step. Tensor cores even for one token: seven eighths of the
/// product are wasted, but a lane spends less than one instruction on a weight.
///
/// grid [row tiles / Size], block [32 * kDecodeWarps]; tokens <= Size * kDecodeTokens.
template <class Operand, int Bitwidth, int Size, int Span>
__global__ void __launch_bounds__(32 * kDecodeWarps,
                                  DecodeShape<Operand, Bitwidth, Size, Span>::kBlocks)
    decode_gemm_kernel(const GemmArguments p) {
  using Shape = DecodeShape<Operand, Bitwidth, Size, Span>;
  constexpr int kDepth = Shape::kDepth;
  __shared__ float sums[kDecodeWarps][Size * Size * 4][32];
  const int lane = threadIdx.x % 32, warp = same_in_warp(threadIdx.x / 32);
  const int first_row_tile = blockIdx.x * Size;
  constexpr int kStride = kDecodeWarps;
  // Constants, which the compiler would load into registers anew for every use if it knew them:
  // tokens >> 31 is zero.
  std::uint32_t ones[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    ones[i] = same_in_warp(Shape::Codes::ones(i % 2) + static_cast<unsigned>(p.tokens >> 31));
  DecodeSums<Size> sum{};
  DecodeActivations<Shape> activations{};
  DecodeUnit<Shape> ring[kDepth];
#pragma unroll
  for (int i = 0; i < kDepth; ++i) ring[i] = empty_unit<Shape>();

  // A ring of kDepth units: each is loaded again as soon as it has been used, so loads never stop.
  // Activations come from the caches and are one unit ahead.
  const int inside = p.aligned ? p.columns / kUnitColumns : 0;
  DecodePlace<Shape> place = place_of_lane<Shape>(p, first_row_tile, warp, lane);
#pragma unroll
  for (int i = 0; i < kDepth; ++i) {
    const bool wanted = warp + i * kStride < inside;
#pragma unroll
    for (int tile = 0; tile < kUnitTiles; ++tile)
      load_unit_words(place, tile, i * kStride, wanted, ring[i]);
    load_unit_scales(p, place, warp + i * kStride, wanted, ring[i]);
  }
#pragma unroll
  for (int tile = 0; tile < kUnitTiles; ++tile)
    load_unit_activations(place, tile, 0, warp < inside, activations);
  for (int first = warp; first < inside; first += kDepth * kStride) {
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      if (first + i * kStride >= inside) break;
      const bool next = first + (i + 1) * kStride < inside;
      const bool later = first + (i + kDepth) * kStride < inside;
      multiply_unit<Shape>(p, ones, ring[i], activations, sum, [&](int tile) {
        load_unit_words(place, tile, (i + kDepth) * kStride, later, ring[i]);
        load_unit_activations(place, tile, (i + 1) * kStride, next, activations);
      });
      load_unit_scales(p, place, first + (i + kDepth) * kStride, later, ring[i]);
    }
    advance(place, kDepth * kStride);
  }
  for (int unit = inside + (warp + kStride - inside % kStride) % kStride;
       unit * kUnitTiles < p.column_tiles; unit += kStride) {
    place = place_of_lane<Shape>(p, first_row_tile, unit, lane);
    load_last_unit(p, place, unit, lane, ring[0], activations);
    multiply_unit<Shape>(p, ones, ring[0], activations, sum, [](int) {});
  }

#pragma unroll
  for (int r = 0; r < Size; ++r)
#pragma unroll
    for (int n = 0; n < Size; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[warp][(r * Size + n) * 4 + i][lane] = sum.at[r][n][i];
  sync_block();
  for (int at = threadIdx.x / 32; at < Size * Size * 4; at += kDecodeWarps) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) total += sums[w][at][lane];
    const int r = at / 4 / Size, n = at / 4 % Size, i = at % 4;
    const int row = (first_row_tile + r) * kTileRows + lane / 4 + i / 2 * 8;
    const int token = kDecodeTokens * n + 2 * (lane % 4) + i % 2;
    if (row < p.rows && token < p.tokens) p.out[token * p.out_stride + row] = total;
  }
}

}  // namespace tessera::kernels::cuda
