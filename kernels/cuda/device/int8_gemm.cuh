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

/// What a thread copies of every step: 16 bytes of some of 128 tokens and of 128 rows. Both lie as
/// in memory, [line][column]: a quarter of a warp reads 16 bytes of four lanes in two neighbouring
/// lines, which are 128 bytes without a gap.
class Int8Copies {
  static constexpr int kLineStep = kInt8Threads / 4, kLines = kInt8Tokens / kLineStep;
  static_assert(kInt8Tokens == kInt8Rows);

 public:
  TESSERA_DEVICE Int8Copies(const Int8Arguments& p, int first_token, int first_row)
      : left_(p.columns - static_cast<int>(threadIdx.x) % 4 * 16) {
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const int line = static_cast<int>(threadIdx.x) / 4 + i * kLineStep;
      set(0, i, p.codes, first_token + line, p.tokens, p.columns);
      set(1, i, p.weights, first_row + line, p.rows, p.columns);
    }
  }

  /// Starts the copies of the step at hand, and moves on to the next one.
  TESSERA_DEVICE void start(const Int8Arguments& p, unsigned char* stage) {
    const int num_bytes = left_ < 0 ? 0 : left_ < 16 ? left_ : 16;
    unsigned char* to = stage + threadIdx.x * 16;
#pragma unroll
    for (int side = 0; side < 2; ++side)
#pragma unroll
      for (int i = 0; i < kLines; ++i) {
        unsigned char* line = to + (side * kLines + i) * kInt8Threads * 16;
        const int bytes = inside_[side][i] ? num_bytes : 0;
        if (p.aligned) {
          copy_async_16(line, from_[side][i], bytes);
        } else {
          for (int k = 0; k < 16; ++k)
            line[k] = k < bytes ? static_cast<unsigned char>(from_[side][i][k]) : 0;
        }
        from_[side][i] += kInt8Columns;
      }
    left_ -= kInt8Columns;
  }

 private:
  TESSERA_DEVICE void set(int side, int i, const std::int8_t* codes, int line, int lines,
                          int columns) {
    inside_[side][i] = line < lines;
    from_[side][i] = codes + static_cast<std::int64_t>(line < lines ? line : 0) * columns +
                     static_cast<int>(threadIdx.x) % 4 * 16;
  }

  const std::int8_t* from_[2][kLines];  // tokens, rows
  bool inside_[2][kLines];
  int left_;  // columns from the thread's bytes to the end of a line
};

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
  Int8Copies copies(p, first_token, first_row);
#pragma unroll
  for (int s = 0; s < kInt8Stages - 1; ++s) {
    if (s < steps) copies.start(p, shared + s * kInt8StageBytes);
    commit_copies();
  }
  int sum[2][8][4] = {};
  int at = 0, free = kInt8Stages - 1;  // stages of the ring: to be multiplied, to be copied to
  for (int step = 0; step < steps; ++step) {
    wait_copies<kInt8Stages - 2>();
    sync_block();
    if (step + kInt8Stages - 1 < steps) copies.start(p, shared + free * kInt8StageBytes);
    commit_copies();
    free = free + 1 == kInt8Stages ? 0 : free + 1;
    const unsigned char* stage = shared + at * kInt8StageBytes;
    at = at + 1 == kInt8Stages ? 0 : at + 1;
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
// Four groups of rows at a time: their products do not wait for each other.
#pragma unroll
    for (int first = 0; first < 8; first += 4) {
      uint4 b[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) b[n] = line(kInt8Tokens + warp_row + (first + n) * 8 + g);
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
          for (int m = 0; m < 2; ++m)
            mma_s8(sum[m][first + n], a[m][half], half == 0 ? b[n].x : b[n].z,
                   half == 0 ? b[n].y : b[n].w);
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
