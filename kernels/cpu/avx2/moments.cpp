#include <immintrin.h>

#include <cmath>
#include <limits>

#include "../reference/reference.h"
#include "avx2.h"
#include "convert.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

TESSERA_KERNELS_INLINE float largest_of(__m256 v) {
  alignas(32) float x[8];
  _mm256_store_ps(x, v);
  for (int i = 1; i < 8; ++i) x[0] = x[i] > x[0] ? x[i] : x[0];
  return x[0];
}

TESSERA_KERNELS_INLINE float smallest_of(__m256 v) {
  return -largest_of(_mm256_xor_ps(v, _mm256_set1_ps(-0.0f)));
}

TESSERA_KERNELS_INLINE double sum_of(__m256 v) {
  alignas(32) float x[8];
  _mm256_store_ps(x, v);
  double sum = 0;
  for (const float lane : x) sum += static_cast<double>(lane);
  return sum;
}

/// Sums of the differences from a value, over a whole number of eights.
struct ShiftedSums {
  float min, max;
  double sum, squares;
};

template <Real Type>
TESSERA_KERNELS_INLINE ShiftedSums shifted_sums(const void* x, std::int64_t count, float shift) {
  const __m256 from = _mm256_set1_ps(shift);
  __m256 sum[4], squares[4], low[2], high[2];
  for (auto& v : sum) v = _mm256_setzero_ps();
  for (auto& v : squares) v = _mm256_setzero_ps();
  for (auto& v : low) v = _mm256_set1_ps(std::numeric_limits<float>::infinity());
  for (auto& v : high) v = _mm256_set1_ps(-std::numeric_limits<float>::infinity());
  const auto add = [&](std::int64_t i, int chain) __attribute__((always_inline)) {
    const __m256 value = load8(at(x, Type, i), Type);
    const __m256 off = _mm256_sub_ps(value, from);
    sum[chain] = _mm256_add_ps(sum[chain], off);
    squares[chain] = _mm256_fmadd_ps(off, off, squares[chain]);
    low[chain % 2] = _mm256_min_ps(low[chain % 2], value);
    high[chain % 2] = _mm256_max_ps(high[chain % 2], value);
  };
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32) {
    _mm_prefetch(static_cast<const char*>(at(x, Type, i)) + 1024, _MM_HINT_T0);
#pragma GCC unroll 4
    for (int chain = 0; chain < 4; ++chain) add(i + 8 * chain, chain);
  }
  for (; i < count; i += 8) add(i, 0);
  return {smallest_of(_mm256_min_ps(low[0], low[1])), largest_of(_mm256_max_ps(high[0], high[1])),
          sum_of(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3]))),
          sum_of(_mm256_add_ps(_mm256_add_ps(squares[0], squares[1]),
                               _mm256_add_ps(squares[2], squares[3])))};
}

/// `count` is a multiple of 8. `shift` is near the mean, or will be.
template <Real Type>
Moments block_moments(const void* x, std::int64_t count, float* shift) {
  const double n = static_cast<double>(count);
  ShiftedSums s = shifted_sums<Type>(x, count, *shift);
  // Where the distance from the shift to the mean makes up most of the squares, digits are lost:
  // once more, from the mean that is known now. It costs a pass over a block that is in the cache.
  if (s.sum * s.sum > 0.5 * n * s.squares && s.squares - s.squares == 0) {
    *shift = static_cast<float>(*shift + s.sum / n);
    s = shifted_sums<Type>(x, count, *shift);
  }
  Moments m;
  // NaN or Inf among the numbers reaches the sums, and so do squares too large or small for f32.
  const bool safe = s.squares < 1e37 && (s.squares > 1e-30 || s.min == s.max);
  if (!safe) {
    reference::moments({x, Type, count}, &m);
    return m;
  }
  const double off = s.sum / n;
  const double variance = s.squares / n - off * off;
  m.min = static_cast<double>(s.min);
  m.max = static_cast<double>(s.max);
  m.mean = static_cast<double>(*shift) + off;
  m.variance = variance > 0 ? variance : 0;
  m.count = count;
  return m;
}

template <Real Type>
Moments moments_of(Numbers x) {
  constexpr std::int64_t kBlock = 4096;  // short sums, and still in a cache for a second pass
  Moments all;
  float shift = load(x.data, Type, 0);
  if (shift - shift != 0) shift = 0;
  const std::int64_t whole = x.count / 8 * 8;
  for (std::int64_t i = 0; i < whole; i += kBlock) {
    const std::int64_t count = whole - i < kBlock ? whole - i : kBlock;
    const Moments block = block_moments<Type>(at(x.data, Type, i), count, &shift);
    all = i == 0 ? block : merge(all, block);
    if (all.count > 0) shift = static_cast<float>(block.count > 0 ? block.mean : all.mean);
  }
  if (whole == x.count) return all;
  Moments rest;
  reference::moments({at(x.data, Type, whole), Type, x.count - whole}, &rest);
  return merge(all, rest);
}

}  // namespace

void moments(Numbers x, Moments* out) {
  *out = x.type == Real::f32   ? moments_of<Real::f32>(x)
         : x.type == Real::f16 ? moments_of<Real::f16>(x)
                               : moments_of<Real::bf16>(x);
}

}  // namespace tessera::kernels::cpu::avx2
