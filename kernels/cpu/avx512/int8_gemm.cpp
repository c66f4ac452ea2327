#include "../simd/int8_gemm.h"

#include <immintrin.h>

#include "avx512.h"

namespace tessera::kernels::cpu::avx512 {
namespace {

/// vpdpbusd multiplies unsigned by signed bytes: 128 is added to the tokens' codes, and 128 times
/// the sum of the weights taken off again.
struct Int8Vnni {
  using Vector = __m512i;
  static constexpr int kVectors = 1, kSteps = 1, kTokenOffset = 128;

  TESSERA_KERNELS_INLINE static void tokens(const std::int8_t* codes, char* to, std::int64_t) {
    for (int i = 0; i < 4; ++i) to[i] = static_cast<char>(codes[i] + kTokenOffset);
  }
  template <int Step>
  TESSERA_KERNELS_INLINE static void weights(const std::int8_t* codes, Vector* to) {
    *to = _mm512_load_si512(codes);
  }
  TESSERA_KERNELS_INLINE static Vector add(Vector sums, Vector weights, std::int32_t token) {
    return _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(token), weights);
  }
};

}  // namespace

void int8_gemm(const Int8Product& product) { Int8Gemm<Int8Vnni>::run(product); }

}  // namespace tessera::kernels::cpu::avx512
