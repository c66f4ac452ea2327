#pragma once

#include <immintrin.h>

#include "../simd/vector.h"

// As baseline/isa.h says, for AVX-512 (F, BW, VL).
namespace tessera::kernels::cpu {
namespace {

struct Avx512Isa {
  static constexpr int kLanes = 16;
  static constexpr int kSums = 16;
  using Floats = Simd<kLanes>::Floats;

  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
  }
  TESSERA_KERNELS_INLINE static Floats max(Floats a, Floats b) {
    return (Floats)_mm512_max_ps((__m512)a, (__m512)b);
  }
  TESSERA_KERNELS_INLINE static Floats sqrt(Floats a) { return (Floats)_mm512_sqrt_ps((__m512)a); }
  TESSERA_KERNELS_INLINE static __mmask16 mask(std::int64_t count) {
    return static_cast<__mmask16>((1u << count) - 1);
  }
  TESSERA_KERNELS_INLINE static Floats read_part(const float* from, std::int64_t count) {
    return (Floats)_mm512_maskz_loadu_ps(mask(count), from);
  }
  TESSERA_KERNELS_INLINE static void write_part(float* to, Floats v, std::int64_t count) {
    _mm512_mask_storeu_ps(to, mask(count), (__m512)v);
  }
  TESSERA_KERNELS_INLINE static Floats from_f16(const void* from) {
    return (Floats)_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  TESSERA_KERNELS_INLINE static Floats from_bf16(const void* from) {
    const __m256i bits = _mm256_loadu_si256(static_cast<const __m256i*>(from));
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
  }
  TESSERA_KERNELS_INLINE static Floats from_int8(const void* from) {
    const __m128i codes = _mm_loadu_si128(static_cast<const __m128i*>(from));
    return (Floats)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes));
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
