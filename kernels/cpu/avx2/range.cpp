#include <immintrin.h>

#include <bit>
#include <limits>

#include "avx2.h"

// The range of numbers from their bits, without converting them. As unsigned integers negative
// numbers stand above all others, the larger the further from zero; as signed ones positive numbers
// do. Three integers of a set are therefore enough: the largest signed (the largest number, if one
// is positive), the largest unsigned (the smallest number, if one is negative), and the smallest
// unsigned, which is the other end where all have the same sign. NaN and Inf are the largest of
// their sign.
namespace tessera::kernels::cpu::avx2 {
namespace {

struct Bits16 {
  using Word = std::uint16_t;
  using Signed = std::int16_t;
  static constexpr std::int64_t kLanes = 16;
  TESSERA_KERNELS_INLINE static __m256i max(__m256i a, __m256i b) { return _mm256_max_epi16(a, b); }
  TESSERA_KERNELS_INLINE static __m256i umax(__m256i a, __m256i b) {
    return _mm256_max_epu16(a, b);
  }
  TESSERA_KERNELS_INLINE static __m256i umin(__m256i a, __m256i b) {
    return _mm256_min_epu16(a, b);
  }
  TESSERA_KERNELS_INLINE static Word smallest(__m256i v) {
    const __m128i half = _mm_min_epu16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    return static_cast<Word>(_mm_cvtsi128_si32(_mm_minpos_epu16(half)));
  }
};

struct Bits32 {
  using Word = std::uint32_t;
  using Signed = std::int32_t;
  static constexpr std::int64_t kLanes = 8;
  TESSERA_KERNELS_INLINE static __m256i max(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
  TESSERA_KERNELS_INLINE static __m256i umax(__m256i a, __m256i b) {
    return _mm256_max_epu32(a, b);
  }
  TESSERA_KERNELS_INLINE static __m256i umin(__m256i a, __m256i b) {
    return _mm256_min_epu32(a, b);
  }
  TESSERA_KERNELS_INLINE static Word smallest(__m256i v) {
    __m128i half = _mm_min_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    half = _mm_min_epu32(half, _mm_shuffle_epi32(half, 0x4e));
    return static_cast<Word>(_mm_cvtsi128_si32(_mm_min_epu32(half, _mm_shuffle_epi32(half, 0xb1))));
  }
};

template <class Bits>
struct Ends {
  typename Bits::Signed largest;
  typename Bits::Word largest_unsigned, smallest_unsigned;
};

template <class Bits>
TESSERA_KERNELS_INLINE Ends<Bits> ends_of(const char* x, std::int64_t count) {
  using Word = typename Bits::Word;
  const auto read = [x](std::int64_t i) __attribute__((always_inline)) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i * sizeof(Word)));
  };
  __m256i largest = read(0), largest_unsigned = largest, smallest_unsigned = largest;
  const auto add = [&](__m256i v) __attribute__((always_inline)) {
    largest = Bits::max(largest, v);
    largest_unsigned = Bits::umax(largest_unsigned, v);
    smallest_unsigned = Bits::umin(smallest_unsigned, v);
  };
  const std::int64_t last = count - Bits::kLanes;
  for (std::int64_t i = Bits::kLanes; i < last; i += Bits::kLanes) add(read(i));
  add(read(last));  // some of them once more, which changes no end
  // Turned round, so that the smallest unsigned is asked for each time.
  const __m256i ones = _mm256_set1_epi32(-1);
  const __m256i sign =
      sizeof(Word) == 2 ? _mm256_set1_epi16(INT16_MIN) : _mm256_set1_epi32(INT32_MIN);
  const auto not_sign = static_cast<Word>(static_cast<Word>(-1) >> 1);
  return {static_cast<typename Bits::Signed>(
              Bits::smallest(_mm256_xor_si256(largest, _mm256_xor_si256(ones, sign))) ^ not_sign),
          static_cast<Word>(~Bits::smallest(_mm256_xor_si256(largest_unsigned, ones))),
          Bits::smallest(smallest_unsigned)};
}

template <Real Type>
TESSERA_KERNELS_INLINE float number(std::uint32_t bits) {
  if (Type == Real::f16)
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  return std::bit_cast<float>(Type == Real::bf16 ? bits << 16 : bits);
}

template <Real Type, class Bits>
TESSERA_KERNELS_INLINE Range range_of(const char* from, std::int64_t count) {
  using Word = typename Bits::Word;
  constexpr auto kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  constexpr auto kInfinity = static_cast<Word>(Type == Real::f16    ? 0x7c00u
                                               : Type == Real::bf16 ? 0x7f80u
                                                                    : 0x7f800000u);
  Word few[Bits::kLanes];
  if (count < Bits::kLanes) {  // the last number stands for those that there are not
    for (std::int64_t i = 0; i < Bits::kLanes; ++i) {
      __builtin_memcpy(few + i, at(from, Type, i < count ? i : count - 1), sizeof(Word));
    }
    from = reinterpret_cast<const char*>(few);
    count = Bits::kLanes;
  }
  const Ends<Bits> e = ends_of<Bits>(from, count);
  if (e.largest >= static_cast<typename Bits::Signed>(kInfinity) ||
      e.largest_unsigned >= (kSign | kInfinity)) {
    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
    return {kNaN, kNaN};
  }
  const Word low = e.largest_unsigned >= kSign ? e.largest_unsigned : e.smallest_unsigned;
  const Word high = e.largest >= 0 ? static_cast<Word>(e.largest) : e.smallest_unsigned;
  return {number<Type>(low), number<Type>(high)};
}

template <Real Type, class Bits>
void ranges_of(Numbers x, std::int64_t group_size, Range* out) {
  const auto* from = static_cast<const char*>(x.data);
  for (std::int64_t left = x.count; left > 0; left -= group_size) {
    *out++ = range_of<Type, Bits>(from, left < group_size ? left : group_size);
    from += group_size * size_of(Type);
  }
}

}  // namespace

void ranges(Numbers x, std::int64_t group_size, Range* out) {
  if (x.type == Real::f32) return ranges_of<Real::f32, Bits32>(x, group_size, out);
  if (x.type == Real::f16) return ranges_of<Real::f16, Bits16>(x, group_size, out);
  ranges_of<Real::bf16, Bits16>(x, group_size, out);
}

}  // namespace tessera::kernels::cpu::avx2
