#pragma once

#include <immintrin.h>

#include "../simd/vector.h"

// AVX-512 (F, BW, VL) as the texts of the products need it.
namespace tessera::kernels::cpu {
namespace {

TESSERA_KERNELS_INLINE __m512 load16(const void* from, Real type) {
  if (type == Real::f32) return _mm512_loadu_ps(from);
  const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(from));
  if (type == Real::f16) return _mm512_cvtph_ps(bits);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

struct Avx512 {
  using Floats = Simd<16>::Floats;
  static constexpr int kLanes = 16;
  static constexpr int kSums = 8;                          // in registers, of few tokens
  static constexpr int kTileTokens = 14, kTileBlocks = 1;  // of many tokens
  static constexpr int kStripColumns = 256, kPanelTokens = 168;

  TESSERA_KERNELS_INLINE static Floats load(const void* from, Real type) {
    return (Floats)load16(from, type);
  }
  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  }
  TESSERA_KERNELS_INLINE static void to_f32(const void* from, Real type, std::int64_t count,
                                            float* to) {
    std::int64_t i = 0;
    for (; i + 16 <= count; i += 16) _mm512_storeu_ps(to + i, load16(at(from, type, i), type));
    for (; i < count; ++i) to[i] = cpu::load(from, type, i);
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
