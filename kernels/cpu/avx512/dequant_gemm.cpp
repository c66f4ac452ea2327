#include "../simd/dequant_gemm.h"

#include <immintrin.h>

#include "avx512.h"

namespace tessera::kernels::cpu::avx512 {
namespace {

TESSERA_KERNELS_INLINE __m512 load16(const void* from, Real type) {
  if (type == Real::f32) return _mm512_loadu_ps(from);
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  if (type == Real::f16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

struct Convert {
  template <int Lanes>
  TESSERA_KERNELS_INLINE static typename Simd<Lanes>::Floats load(const void* from, Real type) {
    static_assert(Lanes == 16);
    return (typename Simd<Lanes>::Floats)load16(from, type);
  }
  TESSERA_KERNELS_INLINE static void to_f32(const void* from, Real type, std::int64_t count,
                                            float* to) {
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) _mm512_storeu_ps(to + i, load16(at(from, type, i), type));
    for (; i < count; ++i) to[i] = cpu::load(from, type, i);
  }
};

}  // namespace

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride) {
  dequant_gemm_of<16, Convert>(activations, weights, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::avx512
