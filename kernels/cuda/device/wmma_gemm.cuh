#pragma once

#include "fma_gemm.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kWmmaRows = 64, kWmmaTokens = 64, kWmmaThreads = 128;
inline constexpr int kWmmaStride =
    kTileColumns + 8;  // elements of a row in shared memory; 8 more spread the banks

/// The first tensor cores (sm_70), f16 activations. Each of four warps dequantises one row tile
/// into shared memory and multiplies it with 64 tokens. Which lane holds which sum is unknown
/// there, so the scale is applied before the product: a weight is rounded to f16 once (a relative
/// error of 2^-11 at most).
///
/// grid [row blocks][token blocks], block [kWmmaThreads].
template <int Bitwidth>
__global__ void __launch_bounds__(kWmmaThreads) wmma_gemm_kernel(const GemmArguments p) {
  // The sums take the place of the operands at the end: 64 tokens of 64 rows.
  __shared__ __align__(32) unsigned char shared[(kWmmaRows + kWmmaTokens) * kWmmaStride * 2];
  static_assert(sizeof shared >= kWmmaRows * kWmmaTokens * sizeof(float));
  auto* weights = reinterpret_cast<std::uint16_t*>(shared);
  auto* activations = weights + kWmmaRows * kWmmaStride;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row_tile = blockIdx.x * (kWmmaRows / kTileRows) + warp,
            first_token = blockIdx.y * kWmmaTokens;

  float sum[kWmmaTokens / 16][8] = {};
  for (int c = 0; c < p.column_tiles; ++c) {
    std::uint32_t words[Bitwidth] = {};
    if (row_tile < p.row_tiles) {
      const std::int64_t index = static_cast<std::int64_t>(row_tile) * p.column_tiles + c;
      load_words<Bitwidth>(p.words + index * tile_words(Bitwidth), lane, words);
    }
    const auto half_tile = [&](auto half) {
      constexpr int kHalf = decltype(half)::value;
      const int group = group_of(p, 2 * c + kHalf);
      float scale[2] = {}, zero_point[2] = {};
      if (row_tile < p.row_tiles && group < p.num_groups)
        decode_scales(p, load_scales(p, row_tile, group, lane), 1 << (Bitwidth - 1), scale,
                      zero_point);
      each_code<Bitwidth, kHalf, 0>(words, lane, zero_point,
                                    [&](int upper, int row, int column, float code) {
                                      weights[(warp * kTileRows + row) * kWmmaStride + column] =
                                          f16_of_f32(scale[upper] * code);
                                    });
    };
    half_tile(Constant<0>{});
    half_tile(Constant<1>{});
    for (int v = threadIdx.x; v < kWmmaTokens * 8; v += kWmmaThreads)
      *reinterpret_cast<uint4*>(activations + v / 8 * kWmmaStride + v % 8 * 8) =
          load_activations(p, first_token + v / 8, c * kTileColumns + v % 8 * 8);
    sync_block();
    for (int k = 0; k < kTileColumns; k += 16) {
      WmmaOperand a, b;
      wmma_load_a(a, weights + warp * kTileRows * kWmmaStride + k, kWmmaStride);
      for (int n = 0; n < kWmmaTokens / 16; ++n) {
        wmma_load_b(b, activations + n * 16 * kWmmaStride + k, kWmmaStride);
        wmma_multiply(sum[n], a, b);
      }
    }
    sync_block();
  }
  auto* out = reinterpret_cast<float*>(shared);
  for (int n = 0; n < kWmmaTokens / 16; ++n)
    wmma_store(out + n * 16 * kWmmaRows + warp * kTileRows, sum[n], kWmmaRows);
  sync_block();
  for (int i = threadIdx.x; i < kWmmaRows * kWmmaTokens; i += kWmmaThreads) {
    const int row = blockIdx.x * kWmmaRows + i % kWmmaRows, token = first_token + i / kWmmaRows;
    if (row < p.rows && token < p.tokens) p.out[token * p.out_stride + row] = out[i];
  }
}

}  // namespace tessera::kernels::cuda
