#pragma once

#include <cstdint>
#include <cstring>

#include "tessera/kernels/types.h"

// The intrinsics that the versions for AVX-512 and AMX use, in plain C++: found in place of the
// compiler's header where the tests compile those versions a second time, so that their text is run
// on machines without the instructions. Each does what Intel's "Intrinsics Guide" says of it, one
// element after another. The compiler's own use of the instructions is not tested by this.

typedef std::int32_t __m512i __attribute__((vector_size(64), may_alias));

namespace tessera::kernels::emulated {

template <class V>
inline V read(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

/// A tile register as configured: rows and bytes of a row.
struct Tile {
  int rows, row_bytes;
  std::int8_t bytes[16][64];
};
inline thread_local Tile tiles[8];

}  // namespace tessera::kernels::emulated

inline __m512i _mm512_load_si512(const void* from) {
  return tessera::kernels::emulated::read<__m512i>(from);
}
inline __m512i _mm512_set1_epi32(std::int32_t value) { return value - __m512i{}; }

/// Four products of unsigned by signed bytes are added to each 32-bit sum, without saturation.
inline __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b) {
  std::uint8_t left[64];
  std::int8_t right[64];
  std::memcpy(left, &a, 64);
  std::memcpy(right, &b, 64);
  for (int i = 0; i < 64; ++i) sums[i / 4] += left[i] * right[i];
  return sums;
}

/// Palette 1: eight tiles; bytes of a row from byte 16 on as 16-bit numbers, rows from byte 48 on.
inline void _tile_loadconfig(const void* config) {
  const auto* bytes = static_cast<const std::uint8_t*>(config);
  for (int i = 0; i < 8; ++i) {
    auto& tile = tessera::kernels::emulated::tiles[i];
    std::memset(&tile, 0, sizeof tile);
    const bool right = bytes[0] == 1 && bytes[48 + i] <= 16 && bytes[16 + 2 * i] <= 64;
    tile.rows = right ? bytes[48 + i] : -1;
    tile.row_bytes = bytes[16 + 2 * i];
  }
}
inline void _tile_release() {
  for (auto& tile : tessera::kernels::emulated::tiles) tile.rows = -1;
}
inline void _tile_zero(int i) {
  auto& tile = tessera::kernels::emulated::tiles[i];
  std::memset(tile.bytes, 0, sizeof tile.bytes);
}
inline void _tile_loadd(int i, const void* from, std::int64_t stride) {
  auto& tile = tessera::kernels::emulated::tiles[i];
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.bytes[row], static_cast<const char*>(from) + row * stride,
                static_cast<std::size_t>(tile.row_bytes));
  }
}
inline void _tile_stored(int i, void* to, std::int64_t stride) {
  const auto& tile = tessera::kernels::emulated::tiles[i];
  for (int row = 0; row < tile.rows; ++row) {
    std::memcpy(static_cast<char*>(to) + row * stride, tile.bytes[row],
                static_cast<std::size_t>(tile.row_bytes));
  }
}
/// sums[m][n] += the four products of row m of `a`, quad k, with row k of `b`, quad n; all k.
inline void _tile_dpbssd(int sums, int a, int b) {
  using tessera::kernels::emulated::tiles;
  for (int m = 0; m < tiles[sums].rows; ++m) {
    for (int n = 0; n < tiles[sums].row_bytes / 4; ++n) {
      std::int32_t sum;
      std::memcpy(&sum, &tiles[sums].bytes[m][4 * n], 4);
      for (int k = 0; k < tiles[a].row_bytes / 4; ++k) {
        for (int i = 0; i < 4; ++i) {
          sum += tiles[a].bytes[m][4 * k + i] * tiles[b].bytes[k][4 * n + i];
        }
      }
      std::memcpy(&tiles[sums].bytes[m][4 * n], &sum, 4);
    }
  }
}
