#include "../simd/int8_gemm.h"

#include <immintrin.h>

#include "avx2.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

/// Codes as 16-bit numbers for vpmaddwd, whose sums of two products are exact. vpmaddubsw takes
/// bytes, but needs the signs moved from the tokens to the weights first, and its 16-bit sums
/// widened afterwards: as many instructions for as many products.
struct Int8Avx2 {
  using Sums = __m256i;
  static constexpr int kVectors = 2;
  static constexpr int kTokenBytes = 8, kTokenOffset = 0;

  /// Columns 0 and 2 of the quad in the first two vectors, 1 and 3 in the others, rows 0..7 and
  /// 8..15: shifts alone turn the bytes into that.
  struct Quad {
    __m256i columns02[2], columns13[2];
  };

  TESSERA_KERNELS_INLINE static void token(const std::int8_t* codes, char* to) {
    const std::int16_t order[4] = {codes[0], codes[2], codes[1], codes[3]};
    __builtin_memcpy(to, order, 8);
  }
  TESSERA_KERNELS_INLINE static Quad expand(const std::int8_t* codes) {
    Quad q;
    for (int v = 0; v < 2; ++v) {
      const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes) + v);
      q.columns02[v] = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
      q.columns13[v] = _mm256_srai_epi16(bytes, 8);
    }
    return q;
  }
  TESSERA_KERNELS_INLINE static Quad read(const char* from) {
    return *reinterpret_cast<const Quad*>(from);
  }
  TESSERA_KERNELS_INLINE static void write(char* to, const Quad& quad) {
    *reinterpret_cast<Quad*>(to) = quad;
  }
  TESSERA_KERNELS_INLINE static __m256i pair(const char* from) {
    std::int32_t both;
    __builtin_memcpy(&both, from, 4);
    return _mm256_set1_epi32(both);
  }
  template <int Tokens>
  TESSERA_KERNELS_INLINE static void add(const Quad& w, const char* tokens,
                                         Sums (&sums)[Tokens][2]) {
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
      const __m256i x = pair(tokens + t * kTokenBytes);
      for (int v = 0; v < 2; ++v) {
        sums[t][v] = _mm256_add_epi32(sums[t][v], _mm256_madd_epi16(x, w.columns02[v]));
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
      const __m256i x = pair(tokens + t * kTokenBytes + 4);
      for (int v = 0; v < 2; ++v) {
        sums[t][v] = _mm256_add_epi32(sums[t][v], _mm256_madd_epi16(x, w.columns13[v]));
      }
    }
  }
};

}  // namespace

void int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
               Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride) {
  Int8Gemm<Int8Avx2>::run({codes, scale, tokens, weights, outputs, out, out_stride});
}

}  // namespace tessera::kernels::cpu::avx2
