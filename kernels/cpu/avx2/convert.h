#pragma once

#include <immintrin.h>

#include "../simd/vector.h"

// 16-bit numbers to f32 with F16C, eight at a time.
namespace tessera::kernels::cpu {
namespace {

TESSERA_KERNELS_INLINE __m256 load8(const void* from, Real type) {
  if (type == Real::f32) return _mm256_loadu_ps(static_cast<const float*>(from));
  const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(from));
  if (type == Real::f16) return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

struct Avx2 {
  using Floats = Simd<8>::Floats;
  static constexpr int kLanes = 8;
  static constexpr int kSums = 8;                         // in registers, of few tokens
  static constexpr int kTileTokens = 6, kTileBlocks = 1;  // of many tokens
  static constexpr int kStripColumns = 256, kPanelTokens = 96;

  TESSERA_KERNELS_INLINE static Floats load(const void* from, Real type) {
    return (Floats)load8(from, type);
  }
  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  }
  TESSERA_KERNELS_INLINE static void to_f32(const void* from, Real type, std::int64_t count,
                                            float* to) {
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) _mm256_storeu_ps(to + i, load8(at(from, type, i), type));
    for (; i < count; ++i) to[i] = cpu::load(from, type, i);
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
