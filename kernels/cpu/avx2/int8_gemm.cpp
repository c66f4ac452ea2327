#include "../simd/int8_gemm.h"

#include <immintrin.h>

#include "avx2.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

/// Codes as 16-bit numbers for vpmaddwd, whose sums of two products are exact. vpmaddubsw takes
/// bytes, but needs the signs moved from the tokens to the weights first, and its 16-bit sums
/// widened afterwards: as many instructions for as many products.
struct Int8Avx2 {
  using Vector = __m256i;
  static constexpr int kVectors = 2, kSteps = 2, kTokenOffset = 0;

  /// Columns 0 and 2 of the quad in the first step, 1 and 3 in the second: shifts alone turn the
  /// weights' bytes into that.
  TESSERA_KERNELS_INLINE static void tokens(const std::int8_t* codes, char* to, std::int64_t next) {
    std::int32_t four;
    __builtin_memcpy(&four, codes, 4);
    const __m128i wide = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(four));
    const __m128i order = _mm_shufflelo_epi16(wide, _MM_SHUFFLE(3, 1, 2, 0));
    const std::int32_t first = _mm_cvtsi128_si32(order), second = _mm_extract_epi32(order, 1);
    __builtin_memcpy(to, &first, 4);
    __builtin_memcpy(to + next, &second, 4);
  }
  template <int Step>
  TESSERA_KERNELS_INLINE static void weights(const std::int8_t* codes, Vector* to) {
    for (int v = 0; v < 2; ++v) {
      __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes) + v);
      if (Step == 0) bytes = _mm256_slli_epi16(bytes, 8);
      to[v] = _mm256_srai_epi16(bytes, 8);
    }
  }
  TESSERA_KERNELS_INLINE static Vector add(Vector sums, Vector weights, std::int32_t token) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(weights, _mm256_set1_epi32(token)));
    // GCC would add the products of two steps to each other first, and run out of registers.
    asm("" : "+x"(sums));
    return sums;
  }
};

}  // namespace

void int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
               Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride) {
  Int8Gemm<Int8Avx2>::run({codes, scale, tokens, weights, outputs, out, out_stride});
}

}  // namespace tessera::kernels::cpu::avx2
