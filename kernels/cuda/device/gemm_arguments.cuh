#pragma once

#include "intrinsics.cuh"
#include "layout.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels::cuda {

/// What every kernel of out = activations * weights^T is called with; passed by value.
struct GemmArguments {
  const std::uint32_t* words;       ///< [row tiles][column tiles][tile_words]
  const void* scales;               ///< of scale_type, at scale_index
  const std::uint8_t* zero_points;  ///< at scale_index; null: symmetric
  const void* activations;          ///< [tokens, columns] of the kernel's type
  float* out;  ///< [tokens][out_stride], or [splits][tokens][rows] of partial sums
  std::int64_t activation_stride, out_stride, split_stride;
  std::uint64_t group_reciprocal;  ///< 2^32 / halves of a group, rounded up
  std::uint32_t tile_reciprocal;   ///< 2^32 / column tiles of a group (at least 2), rounded up
  int tokens, rows, columns;
  int row_tiles, column_tiles, num_groups;
  int tiles_per_split;
  int group_halves;  ///< of 32 columns in a group
  Real scale_type;
  std::uint32_t f16_mask;  ///< all ones where scales are f16, else zero
  int span;                ///< of the decode kernels: 4, 2 or 1 halves that have one scale
  bool aligned;            ///< rows of activations begin at multiples of 16 bytes
};

/// Group of the 32 columns that begin at 32 * half. The product with a rounded-up reciprocal is
/// exact because half * (halves of a group) < 2^32.
TESSERA_DEVICE int group_of(const GemmArguments& p, int half) {
  return static_cast<int>(static_cast<std::uint64_t>(half) * p.group_reciprocal >> 32);
}

/// Group of a column tile, where groups are at least two whole tiles. Exact as above: both factors
/// are below 2^15.
TESSERA_DEVICE int group_of_tile(const GemmArguments& p, int column_tile) {
  return static_cast<int>(
      multiply_high(static_cast<std::uint32_t>(column_tile), p.tile_reciprocal));
}

/// A scale of 16 bits. Both types, and then one of them: a branch would cost more.
TESSERA_DEVICE float scale_of_16(const GemmArguments& p, std::uint16_t bits) {
  const std::uint32_t of_f16 = __float_as_uint(f32_of_f16(bits)),
                      of_bf16 = static_cast<std::uint32_t>(bits) << 16;
  return __uint_as_float((of_f16 & p.f16_mask) | (of_bf16 & ~p.f16_mask));
}

/// Scales and zero points of a lane's two rows as they are in memory, so that a load can be under
/// way.
struct RawScales {
  std::uint32_t scale[2];
  std::uint32_t zero_points;
};

TESSERA_DEVICE RawScales load_scales(const GemmArguments& p, int row_tile, int group, int lane) {
  const std::int64_t at =
      (static_cast<std::int64_t>(row_tile) * p.num_groups + group) * kTileRows + lane / 4 * 2;
  RawScales raw{};
  if (p.scale_type == Real::f32) {
    const uint2 v = *reinterpret_cast<const uint2*>(static_cast<const float*>(p.scales) + at);
    raw.scale[0] = v.x;
    raw.scale[1] = v.y;
  } else {
    raw.scale[0] =
        *reinterpret_cast<const std::uint32_t*>(static_cast<const std::uint16_t*>(p.scales) + at);
  }
  if (p.zero_points != nullptr)
    raw.zero_points = *reinterpret_cast<const std::uint16_t*>(p.zero_points + at);
  return raw;
}

TESSERA_DEVICE void decode_scales(const GemmArguments& p, const RawScales& raw,
                                  int symmetric_zero_point, float (&scale)[2],
                                  float (&zero_point)[2]) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const auto bits = static_cast<std::uint16_t>(raw.scale[0] >> (16 * upper));
    if (p.scale_type == Real::f32) {
      scale[upper] = __uint_as_float(raw.scale[upper]);
    } else {
      scale[upper] = p.scale_type == Real::f16 ? f32_of_f16(bits) : __uint_as_float(bits << 16);
    }
    zero_point[upper] = static_cast<float>(
        p.zero_points != nullptr ? raw.zero_points >> (8 * upper) & 0xff : symmetric_zero_point);
  }
}

/// Eight 16-bit activations of `token` from `column` on, a multiple of 8; zeros beyond the matrix.
/// `Bits` is std::uint16_t for f16 and bf16 alike.
TESSERA_DEVICE uint4 load_activations(const GemmArguments& p, int token, int column) {
  uint4 v = make_uint4(0, 0, 0, 0);
  if (token >= p.tokens || column >= p.columns) return v;
  const auto* from =
      static_cast<const std::uint16_t*>(p.activations) + token * p.activation_stride + column;
  if (p.aligned && column + 8 <= p.columns) return *reinterpret_cast<const uint4*>(from);
  std::uint32_t pair[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (column + i < p.columns)
      pair[i / 2] |= static_cast<std::uint32_t>(from[i]) << (16 * (i % 2));
  return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

/// One activation of any type as f32; zero beyond the matrix.
template <Real Type>
TESSERA_DEVICE float activation(const GemmArguments& p, int token, int column) {
  if (token >= p.tokens || column >= p.columns) return 0;
  const std::int64_t at = token * p.activation_stride + column;
  if constexpr (Type == Real::f32) return static_cast<const float*>(p.activations)[at];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(p.activations)[at];
  return Type == Real::f16 ? f32_of_f16(bits)
                           : __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace tessera::kernels::cuda
