#pragma once

#include <immintrin.h>

#include "../simd/vector.h"

// As baseline/isa.h says, for AVX2 with FMA and F16C.
namespace tessera::kernels::cpu {
namespace {

struct Avx2Isa {
  static constexpr int kLanes = 8;
  static constexpr int kSums = 8;
  using Floats = Simd<kLanes>::Floats;

  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) {
    return (Floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
  }
  TESSERA_KERNELS_INLINE static Floats max(Floats a, Floats b) {
    return (Floats)_mm256_max_ps((__m256)a, (__m256)b);
  }
  TESSERA_KERNELS_INLINE static Floats sqrt(Floats a) { return (Floats)_mm256_sqrt_ps((__m256)a); }
  TESSERA_KERNELS_INLINE static __m256i mask(std::int64_t count) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
  }
  TESSERA_KERNELS_INLINE static Floats read_part(const float* from, std::int64_t count) {
    return (Floats)_mm256_maskload_ps(from, mask(count));
  }
  TESSERA_KERNELS_INLINE static void write_part(float* to, Floats v, std::int64_t count) {
    _mm256_maskstore_ps(to, mask(count), (__m256)v);
  }
  TESSERA_KERNELS_INLINE static Floats from_f16(const void* from) {
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
  TESSERA_KERNELS_INLINE static Floats from_bf16(const void* from) {
    const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(from));
    return (Floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
  }
  TESSERA_KERNELS_INLINE static Floats from_int8(const void* from) {
    const __m128i codes = _mm_loadl_epi64(static_cast<const __m128i*>(from));
    return (Floats)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes));
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
