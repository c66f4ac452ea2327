#include "../simd/int8_gemm.h"

#include <immintrin.h>

#include "avx512.h"

namespace tessera::kernels::cpu::avx512 {
namespace {

/// vpdpbusd multiplies unsigned by signed bytes: 128 is added to the tokens' codes, and 128 times
/// the sum of the weights taken off again.
struct Int8Vnni {
  using Sums = __m512i;
  static constexpr int kVectors = 1;
  static constexpr int kTokenBytes = 4, kTokenOffset = 128;

  struct Quad {
    __m512i bytes;
  };

  TESSERA_KERNELS_INLINE static void token(const std::int8_t* codes, char* to) {
    for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(codes[i] + kTokenOffset);
  }
  TESSERA_KERNELS_INLINE static Quad expand(const std::int8_t* codes) {
    return {_mm512_load_si512(codes)};
  }
  TESSERA_KERNELS_INLINE static Quad read(const char* from) { return {_mm512_load_si512(from)}; }
  TESSERA_KERNELS_INLINE static void write(char* to, const Quad& quad) {
    _mm512_store_si512(to, quad.bytes);
  }
  TESSERA_KERNELS_INLINE static void add_weights(const Quad& w, Sums (&sums)[1]) {
    sums[0] = _mm512_dpbusd_epi32(sums[0], _mm512_set1_epi8(1), w.bytes);
  }
  template <int Tokens>
  TESSERA_KERNELS_INLINE static void add(const Quad& w, const char* tokens,
                                         Sums (&sums)[Tokens][1]) {
    for (int t = 0; t < Tokens; ++t) {
      std::int32_t four;
      __builtin_memcpy(&four, tokens + t * kTokenBytes, 4);
      sums[t][0] = _mm512_dpbusd_epi32(sums[t][0], _mm512_set1_epi32(four), w.bytes);
    }
  }
};

}  // namespace

void int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
               Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride) {
  Int8Gemm<Int8Vnni>::run({codes, scale, tokens, weights, outputs, out, out_stride});
}

}  // namespace tessera::kernels::cpu::avx512
