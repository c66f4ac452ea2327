#include <immintrin.h>

#include <limits>

#include "../reference/reference.h"
#include "avx2.h"
#include "convert.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

/// Upper and lower halves of the products of eight pairs of 32-bit words.
TESSERA_KERNELS_INLINE void multiply(__m256i a, std::uint32_t b, __m256i* high, __m256i* low) {
  const __m256i factor = _mm256_set1_epi32(static_cast<int>(b));
  const __m256i even = _mm256_mul_epu32(a, factor);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

/// Uniforms of the 32 elements of the eight blocks from `block` on: random_block(), in lanes.
void uniforms_of_blocks(std::uint64_t seed, std::uint64_t block, float* out) {
  alignas(32) std::uint32_t low[8], high[8];
  for (std::uint64_t i = 0; i < 8; ++i) {
    low[i] = static_cast<std::uint32_t>(block + i);
    high[i] = static_cast<std::uint32_t>((block + i) >> 32);
  }
  __m256i x0 = _mm256_load_si256(reinterpret_cast<const __m256i*>(low));
  __m256i x1 = _mm256_load_si256(reinterpret_cast<const __m256i*>(high));
  __m256i x2 = _mm256_setzero_si256(), x3 = x2;
  auto k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    __m256i a_high, a_low, b_high, b_low;
    multiply(x0, 0xD2511F53u, &a_high, &a_low);
    multiply(x2, 0xCD9E8D57u, &b_high, &b_low);
    x0 = _mm256_xor_si256(_mm256_xor_si256(b_high, x1), _mm256_set1_epi32(static_cast<int>(k0)));
    x1 = b_low;
    x2 = _mm256_xor_si256(_mm256_xor_si256(a_high, x3), _mm256_set1_epi32(static_cast<int>(k1)));
    x3 = a_low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const __m256i words[4] = {x0, x1, x2, x3};
  for (int w = 0; w < 4; ++w) {
    alignas(32) float u[8];
    _mm256_store_ps(u, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(words[w], 8)),
                                     _mm256_set1_ps(0x1p-24f)));
    for (int i = 0; i < 8; ++i) out[4 * i + w] = u[i];
  }
}

/// The low bytes of eight words.
TESSERA_KERNELS_INLINE void write_bytes(__m256i words, void* to) {
  const __m256i halves = _mm256_packs_epi32(words, words);
  const __m256i bytes = _mm256_packus_epi16(halves, halves);
  const std::int32_t first = _mm256_extract_epi32(bytes, 0);
  const std::int32_t second = _mm256_extract_epi32(bytes, 4);
  __builtin_memcpy(to, &first, 4);
  __builtin_memcpy(static_cast<char*>(to) + 4, &second, 4);
}

constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// code_of() in lanes.
struct Quantiser {
  explicit Quantiser(const QuantiseOptions& o)
      : scale(_mm256_set1_ps(o.scale)),
        zero_point(_mm256_set1_ps(static_cast<float>(o.zero_point))),
        low(_mm256_set1_ps(static_cast<float>(lowest_code(o.format)))),
        high(_mm256_set1_ps(static_cast<float>(highest_code(o.format)))) {}

  TESSERA_KERNELS_INLINE void finish(__m256 whole, std::uint8_t* codes) const {
    whole = _mm256_add_ps(whole, zero_point);
    whole = _mm256_max_ps(whole, low);  // the second one where the first is NaN
    whole = _mm256_min_ps(whole, high);
    write_bytes(_mm256_cvttps_epi32(whole), codes);
  }
  TESSERA_KERNELS_INLINE void nearest(__m256 value, std::uint8_t* codes) const {
    finish(_mm256_round_ps(_mm256_div_ps(value, scale), kToNearest), codes);
  }
  TESSERA_KERNELS_INLINE void stochastic(__m256 value, __m256 uniform, std::uint8_t* codes) const {
    const __m256 steps = _mm256_div_ps(value, scale);
    const __m256 whole = _mm256_floor_ps(steps);
    const __m256 up = _mm256_cmp_ps(uniform, _mm256_sub_ps(steps, whole), _CMP_LT_OQ);
    finish(_mm256_add_ps(whole, _mm256_and_ps(up, _mm256_set1_ps(1.0f))), codes);
  }

  __m256 scale, zero_point, low, high;
};

}  // namespace

void quantise(Numbers x, const QuantiseOptions& o, std::uint8_t* codes) {
  const Quantiser q(o);
  std::int64_t i = 0;
  if (o.rounding == Rounding::nearest) {
    for (; i + 8 <= x.count; i += 8) q.nearest(load8(at(x.data, x.type, i), x.type), codes + i);
  } else {
    // 32 uniforms at a time; elements before a multiple of four use the later words of a block.
    const auto skip = static_cast<std::int64_t>(o.first_index % 4);
    while (x.count - i >= 8) {
      alignas(32) float uniform[32];
      uniforms_of_blocks(o.seed, (o.first_index + static_cast<std::uint64_t>(i)) / 4, uniform);
      const std::int64_t last = (x.count - i < 32 - skip ? x.count - i : 32 - skip) / 8 * 8;
      for (std::int64_t k = 0; k < last; k += 8) {
        q.stochastic(load8(at(x.data, x.type, i + k), x.type), _mm256_loadu_ps(uniform + skip + k),
                     codes + i + k);
      }
      i += last;  // a multiple of eight: `skip` stays
    }
  }
  if (i == x.count) return;
  QuantiseOptions rest = o;
  rest.first_index += static_cast<std::uint64_t>(i);
  reference::quantise({at(x.data, x.type, i), x.type, x.count - i}, rest, codes + i);
}

void dequantise(const std::uint8_t* codes, std::int64_t count, float scale, int zero_point,
                float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i));
    const __m256i steps =
        _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_set1_epi32(zero_point));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(steps)));
  }
  reference::dequantise(codes + i, count - i, scale, zero_point, out + i);
}

void quantise_row(Numbers x, const std::uint8_t* is_outlier, std::int8_t* codes, float* scale) {
  const auto value_at = [&](std::int64_t i) __attribute__((always_inline)) {
    const __m256 value = load8(at(x.data, x.type, i), x.type);
    if (is_outlier == nullptr) return value;
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(is_outlier + i));
    const __m256i kept = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_setzero_si256());
    return _mm256_and_ps(value, _mm256_castsi256_ps(kept));
  };
  const auto rest_at = [&](std::int64_t i) {
    return is_outlier != nullptr && is_outlier[i] != 0 ? 0.0f : load(x.data, x.type, i);
  };
  const std::int64_t whole = x.count / 8 * 8;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 high = _mm256_setzero_ps(), poison = high;
  for (std::int64_t i = 0; i < whole; i += 8) {
    const __m256 value = value_at(i);
    high = _mm256_max_ps(high, _mm256_andnot_ps(sign, value));
    poison = _mm256_fmadd_ps(value, _mm256_setzero_ps(), poison);
  }
  alignas(32) float lanes[16];
  _mm256_store_ps(lanes, high);
  _mm256_store_ps(lanes + 8, poison);
  float largest = 0;
  bool finite = true;
  for (int i = 0; i < 8; ++i) {
    largest = lanes[i] > largest ? lanes[i] : largest;
    finite = finite && lanes[8 + i] == 0;
  }
  for (std::int64_t i = whole; i < x.count; ++i) {
    const float size = __builtin_fabsf(rest_at(i));
    finite = finite && size - size == 0;
    largest = size > largest ? size : largest;
  }
  *scale = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  if (*scale == 0) *scale = 1;

  const __m256 step = _mm256_set1_ps(*scale), limit = _mm256_set1_ps(127);
  for (std::int64_t i = 0; i < whole; i += 8) {
    __m256 steps = _mm256_round_ps(_mm256_div_ps(value_at(i), step), kToNearest);
    steps = _mm256_max_ps(steps, _mm256_xor_ps(limit, sign));  // the second where the first is NaN
    const __m256i words = _mm256_cvttps_epi32(_mm256_min_ps(steps, limit));
    write_bytes(_mm256_and_si256(words, _mm256_set1_epi32(0xff)), codes + i);
  }
  for (std::int64_t i = whole; i < x.count; ++i) {
    const float steps = __builtin_rintf(rest_at(i) / *scale);
    const float low = steps > -127 ? steps : -127;
    codes[i] = static_cast<std::int8_t>(low < 127 ? low : 127);
  }
}

}  // namespace tessera::kernels::cpu::avx2
