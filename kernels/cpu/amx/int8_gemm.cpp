#include <immintrin.h>

#include "amx.h"

// int8_gemm with tiles of 16 x 64 bytes: 16 tokens times 64 columns, and the 16 quads of a block of
// 16 rows just as they are packed. A product of two tiles adds 64 columns to 16 x 16 sums.
namespace tessera::kernels::cpu::amx {
namespace {

constexpr std::int64_t kRows = kRowsPerBlock, kTokens = 16, kColumns = 64, kTileBytes = 1024;
constexpr std::int64_t kPanelTokens = 256;  // their codes stay in the second-level cache

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Bytes of a tile in memory, and how far apart its rows are.
struct Tile {
  const void* data;
  std::int64_t stride;
};

struct Product : Int8Product {
  /// In place where it is whole, otherwise a copy with zeros for what is missing.
  Tile token_tile(std::int64_t token, std::int64_t column, std::int8_t* copy) const {
    const std::int64_t k = weights.columns;
    const std::int64_t rows = tokens - token < kTokens ? tokens - token : kTokens;
    const std::int64_t columns = k - column < kColumns ? k - column : kColumns;
    const std::int8_t* from = codes + token * k + column;
    if (rows == kTokens && columns == kColumns) return {from, k};
    __builtin_memset(copy, 0, kTileBytes);
    for (std::int64_t t = 0; t < rows; ++t) {
      __builtin_memcpy(copy + t * kColumns, from + t * k, static_cast<std::size_t>(columns));
    }
    return {copy, kColumns};
  }

  Tile weight_tile(std::int64_t row, std::int64_t column, std::int8_t* copy) const {
    const std::int64_t left = quads() - column / 4;
    const std::int8_t* from = block(row) + column * kRows;
    if (left >= kColumns / 4) return {from, 4 * kRows};
    __builtin_memset(copy, 0, kTileBytes);
    __builtin_memcpy(copy, from, static_cast<std::size_t>(left * kRows * 4));
    return {copy, 4 * kRows};
  }

  void store(std::int64_t token, std::int64_t row, const std::int32_t* sums) const {
    for (std::int64_t t = token; t < token + kTokens && t < tokens; ++t, sums += kRows) {
      for (std::int64_t r = row; r < row + kRows && r < outputs.last; ++r) {
        out[t * out_stride + r] = scale[t] * weights.scale[r] * static_cast<float>(sums[r - row]);
      }
    }
  }

  /// 32 tokens times 32 rows; where there are no second 16, the first stand for them.
  void tiles(std::int64_t token, std::int64_t row) const {
    const std::int64_t token_2 = token + kTokens < tokens ? token + kTokens : token;
    const std::int64_t row_2 = row + kRows < outputs.last ? row + kRows : row;
    alignas(64) std::int8_t copy[kTileBytes];
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::int64_t column = 0; column < weights.columns; column += kColumns) {
      Tile tile = token_tile(token, column, copy);
      _tile_loadd(4, tile.data, tile.stride);
      tile = token_tile(token_2, column, copy);
      _tile_loadd(5, tile.data, tile.stride);
      tile = weight_tile(row, column, copy);
      _tile_loadd(6, tile.data, tile.stride);
      tile = weight_tile(row_2, column, copy);
      _tile_loadd(7, tile.data, tile.stride);
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
    alignas(64) std::int32_t sums[4][kTokens * kRows];
    _tile_stored(0, sums[0], 4 * kRows);
    _tile_stored(1, sums[1], 4 * kRows);
    _tile_stored(2, sums[2], 4 * kRows);
    _tile_stored(3, sums[3], 4 * kRows);
    store(token, row, sums[0]);
    store(token, row_2, sums[1]);
    store(token_2, row, sums[2]);
    store(token_2, row_2, sums[3]);
  }
};

}  // namespace

void int8_gemm(const Int8Product& product) {
  const Product p{product};
  const TileConfig config;
  _tile_loadconfig(&config);
  for (std::int64_t panel = 0; panel < p.tokens; panel += kPanelTokens) {
    const std::int64_t end = p.tokens - panel < kPanelTokens ? p.tokens : panel + kPanelTokens;
    for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += 2 * kRows) {
      for (std::int64_t token = panel; token < end; token += 2 * kTokens) p.tiles(token, row);
    }
  }
  _tile_release();
}

}  // namespace tessera::kernels::cpu::amx
