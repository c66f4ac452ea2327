#pragma once

#include <cstddef>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define TESSERA_EXACT_AVX2 1
#endif

// The inner loops of the search: minima of sums along contiguous rows. Compilers do not vectorise
// `min` of doubles without relaxing floating point for the whole file, hence by hand. No fused
// multiply-add: both versions give the same bits.
namespace tessera::solver::exact {

/// out[i] = min(out[i], base + scale * row[i])
inline void min_scaled_plain(double* out, const double* row, double base, double scale,
                             std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double v = base + scale * row[i];
    out[i] = v < out[i] ? v : out[i];
  }
}

/// out[i] = min(out[i], a[i] + b[i])
inline void min_sum_plain(double* out, const double* a, const double* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double v = a[i] + b[i];
    out[i] = v < out[i] ? v : out[i];
  }
}

#ifdef TESSERA_EXACT_AVX2
__attribute__((target("avx2"))) inline void min_scaled_avx2(double* out, const double* row,
                                                            double base, double scale,
                                                            std::size_t n) {
  const __m256d bases = _mm256_set1_pd(base), scales = _mm256_set1_pd(scale);
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256d v = _mm256_add_pd(bases, _mm256_mul_pd(scales, _mm256_loadu_pd(row + i)));
    _mm256_storeu_pd(out + i, _mm256_min_pd(v, _mm256_loadu_pd(out + i)));
  }
  for (; i < n; ++i) {
    const double v = base + scale * row[i];
    out[i] = v < out[i] ? v : out[i];
  }
}

__attribute__((target("avx2"))) inline void min_sum_avx2(double* out, const double* a,
                                                         const double* b, std::size_t n) {
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256d v = _mm256_add_pd(_mm256_loadu_pd(a + i), _mm256_loadu_pd(b + i));
    _mm256_storeu_pd(out + i, _mm256_min_pd(v, _mm256_loadu_pd(out + i)));
  }
  for (; i < n; ++i) {
    const double v = a[i] + b[i];
    out[i] = v < out[i] ? v : out[i];
  }
}

inline const bool kHasAvx2 = __builtin_cpu_supports("avx2") != 0;
#else
inline constexpr bool kHasAvx2 = false;
#endif

inline void min_scaled(double* out, const double* row, double base, double scale, std::size_t n) {
#ifdef TESSERA_EXACT_AVX2
  if (kHasAvx2) return min_scaled_avx2(out, row, base, scale, n);
#endif
  min_scaled_plain(out, row, base, scale, n);
}

inline void min_sum(double* out, const double* a, const double* b, std::size_t n) {
#ifdef TESSERA_EXACT_AVX2
  if (kHasAvx2) return min_sum_avx2(out, a, b, n);
#endif
  min_sum_plain(out, a, b, n);
}

}  // namespace tessera::solver::exact
