#pragma once

#include "../reference/reference.h"
#include "../simd/gemm_a8.h"
#include "convert.h"

// A block of a token to 8 bits with AVX2.
namespace tessera::kernels::cpu {
namespace {

/// 16 or 32 columns.
template <int Columns>
TESSERA_KERNELS_INLINE void quantise_whole_block(const void* from, Real type, TokenBlock<1>* to) {
  constexpr int kVectors = Columns / 8;
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 x[kVectors], high = _mm256_setzero_ps(), poison = high;
  for (int i = 0; i < kVectors; ++i) {
    x[i] = load8(at(from, type, 8 * i), type);
    high = _mm256_max_ps(high, _mm256_andnot_ps(sign, x[i]));
    poison = _mm256_fmadd_ps(x[i], _mm256_setzero_ps(), poison);  // 0, or NaN from NaN and Inf
  }
  high = _mm256_add_ps(high, _mm256_andnot_ps(sign, poison));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(high), _mm256_extractf128_ps(high, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  const float largest = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(poison, poison, _CMP_UNORD_Q)) == 0;
  to->scale = finite ? largest / 127 : __builtin_nanf("");
  if (to->scale == 0) to->scale = 1;
  const __m256 step = _mm256_set1_ps(to->scale), limit = _mm256_set1_ps(127);
  __m256i words[4] = {};
  for (int i = 0; i < kVectors; ++i) {
    // The second one where the first is NaN; the conversion rounds to nearest.
    const __m256 low = _mm256_max_ps(_mm256_div_ps(x[i], step), _mm256_xor_ps(limit, sign));
    words[i] = _mm256_cvtps_epi32(_mm256_min_ps(low, limit));
  }
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]),
                                           _mm256_packs_epi32(words[2], words[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i codes = _mm256_permutevar8x32_epi32(bytes, order);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to->codes[0]), codes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  to->sum = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

TESSERA_KERNELS_INLINE void quantise_block(const void* from, Real type, std::int64_t count,
                                           TokenBlock<1>* to) {
  if (count == 32) return quantise_whole_block<32>(from, type, to);
  if (count == 16) return quantise_whole_block<16>(from, type, to);
  reference::quantise_row({from, type, count}, nullptr, to->codes[0], &to->scale);
  to->sum = 0;
  for (std::int64_t i = 0; i < kColumns; ++i) {
    if (i >= count) to->codes[0][i] = 0;
    to->sum += to->codes[0][i];
  }
}

/// The bytes of a block as 4-bit codes come out of a word: those of its even columns, then those of
/// its odd ones.
TESSERA_KERNELS_INLINE void arrange_nibbles(const std::int8_t* codes, std::int32_t* words) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
  const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), _mm256_shuffle_epi8(bytes, order));
}

/// And as 3-bit codes do: every third field of the ten of a word, the last two columns apart; 0
/// where a word has no such field.
TESSERA_KERNELS_INLINE void arrange_threes(const std::int8_t* codes, std::int32_t* words) {
  for (int step = 0; step < 10; ++step) {
    std::int8_t four[4] = {};
    for (int i = 0; i < 4; ++i) {
      const int field = step % 3 + 3 * i;
      if (step == 9) {
        four[i] = i < 2 ? codes[30 + i] : std::int8_t{0};
      } else if (field < 10) {
        four[i] = codes[step / 3 * 10 + field];
      }
    }
    __builtin_memcpy(words + step, four, 4);
  }
}

/// Columns 30 and 31 of a unit of 3-bit codes, in the lowest two bytes: bits 30 and 31 of its
/// words.
template <class Ints>
TESSERA_KERNELS_INLINE Ints last_columns(const Ints* words) {
  Ints both{};
  for (int bit = 0; bit < 3; ++bit) {
    const Ints two = words[bit] >> 30 & 3;
    both |= ((two | two << 7) & 0x0101) << bit;
  }
  return both;
}

}  // namespace
}  // namespace tessera::kernels::cpu
