#pragma once

#include "intrinsics.cuh"

namespace tessera::kernels::cuda {

/// out[token][row] = token_scale[token] * row_scale[row] * sum over k of codes[token][k] *
/// weights[row][k].
struct Int8Arguments {
  const std::int8_t* codes;    ///< [tokens, columns]
  const std::int8_t* weights;  ///< [rows, columns]
  const float* token_scale;
  const float* row_scale;
  float* out;
  std::int64_t out_stride;
  int tokens, rows, columns;
  bool aligned;  ///< rows of both begin at multiples of 16 bytes
};

inline constexpr int kInt8Tokens = 128, kInt8Rows = 128, kInt8Columns = 64, kInt8Threads = 256,
                     kInt8Stages = 3;
inline constexpr int kInt8StageBytes = (kInt8Tokens + kInt8Rows) * kInt8Columns;

/// Starts the copies of 128 tokens and 128 rows of 64 columns. Both lie as in memory,
/// [line][column]: a quarter of a warp reads 16 bytes of four lanes in two neighbouring lines,
/// which are 128 bytes without a gap.
TESSERA_DEVICE void load_int8_stage(const Int8Arguments& p, int first_token, int first_row,
                                    int first_column, unsigned char* stage) {
  for (int v = threadIdx.x; v < (kInt8Tokens + kInt8Rows) * 4; v += kInt8Threads) {
    const int line = v / 4, column = first_column + v % 4 * 16;
    const bool is_token = line < kInt8Tokens;
    const int index = is_token ? first_token + line : first_row + line - kInt8Tokens;
    const int left = index < (is_token ? p.tokens : p.rows) ? p.columns - column : 0;
    const int num_bytes = left < 0 ? 0 : left < 16 ? left : 16;
    const std::int8_t* from = is_token ? p.codes : p.weights;
    if (num_bytes > 0) from += static_cast<std::int64_t>(index) * p.columns + column;
    if (p.aligned) {
      copy_async_16(stage + v * 16, from, num_bytes);
    } else {
      for (int i = 0; i < 16; ++i)
        stage[v * 16 + i] = i < num_bytes ? static_cast<unsigned char>(from[i]) : 0;
    }
  }
}

/// int8 tensor cores (sm_75 and newer). Eight warps, each 32 tokens by 64 rows of the block's 128
/// by 128. A sum over k does not mind the order of k: a lane takes 16 contiguous bytes of a line as
/// its share of two mma, in both operands alike, so one load of 16 bytes feeds both.
///
/// grid [row blocks][token blocks], block [kInt8Threads].
TESSERA_GLOBAL void __launch_bounds__(kInt8Threads) int8_gemm_kernel(const Int8Arguments p) {
  __shared__ __align__(16) unsigned char shared[kInt8Stages * kInt8StageBytes];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int first_row = blockIdx.x * kInt8Rows, first_token = blockIdx.y * kInt8Tokens;
  const int warp_token = warp % 4 * 32, warp_row = warp / 4 * 64;
  const int steps = (p.columns + kInt8Columns - 1) / kInt8Columns;
#pragma unroll
  for (int s = 0; s < kInt8Stages - 1; ++s) {
    if (s < steps)
      load_int8_stage(p, first_token, first_row, s * kInt8Columns, shared + s * kInt8StageBytes);
    commit_copies();
  }
  int sum[2][8][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_copies<kInt8Stages - 2>();
    sync_block();
    const int ahead = step + kInt8Stages - 1;
    if (ahead < steps) {
      load_int8_stage(p, first_token, first_row, ahead * kInt8Columns,
                      shared + ahead % kInt8Stages * kInt8StageBytes);
    }
    commit_copies();
    const unsigned char* stage = shared + step % kInt8Stages * kInt8StageBytes;
    const auto line = [&](int index) {
      return *reinterpret_cast<const uint4*>(stage + index * kInt8Columns + t * 16);
    };
    std::uint32_t a[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const uint4 low = line(warp_token + m * 16 + g), high = line(warp_token + m * 16 + g + 8);
      a[m][0][0] = low.x, a[m][0][1] = high.x, a[m][0][2] = low.y, a[m][0][3] = high.y;
      a[m][1][0] = low.z, a[m][1][1] = high.z, a[m][1][2] = low.w, a[m][1][3] = high.w;
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const uint4 b = line(kInt8Tokens + warp_row + n * 8 + g);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_s8(sum[m][n], a[m][0], b.x, b.y);
        mma_s8(sum[m][n], a[m][1], b.z, b.w);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = first_token + warp_token + m * 16 + g + i / 2 * 8;
        const int row = first_row + warp_row + n * 8 + 2 * t + i % 2;
        if (token < p.tokens && row < p.rows)
          p.out[token * p.out_stride + row] =
              p.token_scale[token] * p.row_scale[row] * static_cast<float>(sum[m][n][i]);
      }
}

inline constexpr int kDotTile = 64, kDotColumns = 32, kDotThreads = 256;

/// Four bytes of a line from `column` on, zeros beyond its end.
TESSERA_DEVICE std::uint32_t int8_word(const std::int8_t* codes, int line, int lines, int column,
                                       int columns) {
  std::uint32_t word = 0;
  const std::int8_t* from = codes + static_cast<std::int64_t>(line) * columns + column;
  for (int i = 0; i < 4; ++i)
    if (line < lines && column + i < columns)
      word |= static_cast<std::uint32_t>(from[i] & 0xff) << (8 * i);
  return word;
}

/// Without int8 tensor cores: dp4a where the GPU has it (sm_61, sm_70), else plain integers.
///
/// grid [row blocks][token blocks], block [kDotThreads]: rows x + 16 i, tokens y + 16 j.
TESSERA_GLOBAL void __launch_bounds__(kDotThreads) int8_dot_kernel(const Int8Arguments p) {
  __shared__ std::uint32_t tokens[kDotColumns / 4][kDotTile + 1];
  __shared__ std::uint32_t rows[kDotColumns / 4][kDotTile + 1];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int first_row = blockIdx.x * kDotTile, first_token = blockIdx.y * kDotTile;
  int sum[4][4] = {};
  for (int column = 0; column < p.columns; column += kDotColumns) {
    for (int i = threadIdx.x; i < kDotTile * kDotColumns / 4; i += kDotThreads) {
      const int quad = i % (kDotColumns / 4), line = i / (kDotColumns / 4);
      tokens[quad][line] =
          int8_word(p.codes, first_token + line, p.tokens, column + 4 * quad, p.columns);
      rows[quad][line] =
          int8_word(p.weights, first_row + line, p.rows, column + 4 * quad, p.columns);
    }
    sync_block();
    for (int quad = 0; quad < kDotColumns / 4; ++quad)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          sum[i][j] = dot_s8(rows[quad][x + 16 * i], tokens[quad][y + 16 * j], sum[i][j]);
    sync_block();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + x + 16 * i, token = first_token + y + 16 * j;
      if (token < p.tokens && row < p.rows)
        p.out[token * p.out_stride + row] =
            p.token_scale[token] * p.row_scale[row] * static_cast<float>(sum[i][j]);
    }
}

}  // namespace tessera::kernels::cuda
