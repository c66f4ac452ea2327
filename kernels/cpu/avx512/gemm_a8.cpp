// dequant_gemm_a8 with VNNI: vpdpbusd multiplies four unsigned codes by four of a token and adds
// the products to 32 bits.
#include "../simd/gemm_a8.h"

#include <immintrin.h>

#include <bit>

#include "../avx2/token_block.h"
#include "avx512.h"
#include "convert.h"

namespace tessera::kernels::cpu::avx512 {
namespace {

using Ints = Simd<16>::Ints;

struct Products {
  TESSERA_KERNELS_INLINE static Ints add(Ints sums, Ints codes, Ints token) {
    return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)codes, (__m512i)token);
  }
  TESSERA_KERNELS_INLINE static Ints widen(Ints sums) { return sums; }
};

template <int Bits>
struct Steps;

template <>
struct Steps<4> : Products {
  static constexpr int kUnitColumns = 8, kUnitWords = 1, kCount = 2;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    return words[0] >> (Step * 4) & 0x0f0f0f0f;
  }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    arrange_nibbles(codes, words);
  }
};

/// Fields 0, 9, 18 and 27 bits up come to bytes by shifts of 0 to 3.
template <>
struct Steps<3> : Products {
  static constexpr int kUnitColumns = 32, kUnitWords = 3, kCount = 10;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    if constexpr (Step == 9) {
      return last_columns(words);
    } else {
      const Ints bits = words[Step / 3] >> (Step % 3 * 3);
      return (bits & 7) | (bits >> 1 & 7 << 8) | (bits >> 2 & 7 << 16) | (bits >> 3 & 7 << 24);
    }
  }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    arrange_threes(codes, words);
  }
};

template <>
struct Steps<8> : Products {
  static constexpr int kUnitColumns = 4, kUnitWords = 1, kCount = 1;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    return words[0];
  }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    __builtin_memcpy(words, codes, kColumns);
  }
};

/// Fixed-point numbers of 23 bits, in units of a power of two: the largest of the block is below
/// 2^22 units. With codes of 4 bits, a product's sum over a block stays below 2^31.
TESSERA_KERNELS_INLINE void split_block(const void* from, Real type, std::int64_t count,
                                        TokenBlock<3>* to) {
  constexpr int kVectors = kColumns / 16;
  alignas(64) float x[kColumns] = {};
  Avx512::to_f32(from, type, count, x);
  __m512i largest = _mm512_setzero_si512();  // of the bits without the sign, as integers
  for (int v = 0; v < kVectors; ++v) {
    const __m512i bits = _mm512_load_si512(x + 16 * v);
    largest = _mm512_max_epu32(largest, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  const int biased = static_cast<int>(_mm512_reduce_max_epu32(largest) >> 23);  // of the exponent
  const bool finite = biased < 255;
  const int exponent = (biased > 30 ? biased : 30) - 126;  // everything is below 2^exponent
  const auto power = [](int e) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
  };
  to->scale = finite ? power(exponent - 22) : __builtin_nanf("");
  const __m512 units = _mm512_set1_ps(finite ? power(22 - exponent) : 0);
  __m512i sum = _mm512_setzero_si512();
  for (int v = 0; v < kVectors; ++v) {
    __m512i rest = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_load_ps(x + 16 * v), units));
    sum = _mm512_add_epi32(sum, rest);
    for (int digit = 2; digit >= 0; --digit) {  // the lowest bytes, from -128 to 127
      const __m128i bytes = _mm512_cvtepi32_epi8(rest);
      _mm_store_si128(reinterpret_cast<__m128i*>(to->codes[digit] + 16 * v), bytes);
      rest = _mm512_srai_epi32(_mm512_sub_epi32(rest, _mm512_cvtepi8_epi32(bytes)), 8);
    }
  }
  to->sum = _mm512_reduce_add_epi32(sum);
}

struct Avx512A8 : Avx512 {
  static constexpr int kTile = 8;
  template <int Bits>
  using Steps = avx512::Steps<Bits>;

  TESSERA_KERNELS_INLINE static Ints bytes(const char* from) {
    return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  TESSERA_KERNELS_INLINE static void quantise_block(const void* from, Real type, std::int64_t count,
                                                    TokenBlock<1>* to) {
    cpu::quantise_block(from, type, count, to);
  }
  TESSERA_KERNELS_INLINE static void quantise_block(const void* from, Real type, std::int64_t count,
                                                    TokenBlock<3>* to) {
    split_block(from, type, count, to);
  }
};

}  // namespace

void dequant_gemm_a8(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  gemm_a8_of<Avx512A8>(x, w, outputs, out, out_stride);
}

/// Three digits of 8 bits take fewer instructions than f32 products of 4-bit codes. Codes of 8 bits
/// would overflow the sums, and 3-bit ones take longer to spread over bytes than to multiply.
void dequant_gemm_digits(Matrix x, CodedWeights w, Rows outputs, float* out,
                         std::int64_t out_stride) {
  if (w.format.bitwidth == 4) {
    integer_gemm_of_bits<Avx512A8, 3, 4>(x, w, outputs, out, out_stride);
  } else {
    dequant_gemm(x, w, outputs, out, out_stride);
  }
}

}  // namespace tessera::kernels::cpu::avx512
