// dequant_gemm_a8 with vpmaddubsw. Codes of 4 bits give sums of two products of at most 3810, so
// the eight steps of a block add up in 16 bits, where one instruction adds two columns.
#include "../simd/gemm_a8.h"

#include <immintrin.h>

#include "avx2.h"
#include "convert.h"
#include "token_block.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

using Ints = Simd<8>::Ints;

TESSERA_KERNELS_INLINE __m256i raw(Ints v) { return (__m256i)v; }

template <int Bits>
struct Steps;

/// The bytes of even and of odd columns.
template <>
struct Steps<4> {
  static constexpr int kUnitColumns = 8, kUnitWords = 1, kCount = 2;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    const __m256i bits = Step == 0 ? raw(words[0]) : _mm256_srli_epi16(raw(words[0]), 4);
    return (Ints)_mm256_and_si256(bits, _mm256_set1_epi8(15));
  }
  TESSERA_KERNELS_INLINE static Ints add(Ints sums, Ints codes, Ints token) {
    return (Ints)_mm256_add_epi16(raw(sums), _mm256_maddubs_epi16(raw(codes), raw(token)));
  }
  TESSERA_KERNELS_INLINE static Ints widen(Ints sums) {
    return (Ints)_mm256_madd_epi16(raw(sums), _mm256_set1_epi16(1));
  }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    arrange_nibbles(codes, words);
  }
};

/// Fields 0, 9, 18 and 27 bits up in a word come to bytes by shifts of 0, 1, 1 and 2, the upper two
/// of them one bit up: widen() evens that out. What stands where there is no column meets a token's
/// 0. At most 12 products of 2 * 7 * 127 in 16 bits.
template <>
struct Steps<3> {
  static constexpr int kUnitColumns = 32, kUnitWords = 3, kCount = 10;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    if constexpr (Step == 9) {
      return last_columns(words);
    } else {
      const Ints bits = words[Step / 3] >> (Step % 3 * 3);
      return (bits & 7) | (bits >> 1 & (7 << 8 | 7 << 17)) | (bits >> 2 & (7 << 25));
    }
  }
  TESSERA_KERNELS_INLINE static Ints add(Ints sums, Ints codes, Ints token) {
    return Steps<4>::add(sums, codes, token);
  }
  TESSERA_KERNELS_INLINE static Ints widen(Ints sums) {
    return (Ints)_mm256_madd_epi16(raw(sums), _mm256_set1_epi32(1 << 16 | 2)) >> 1;
  }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    arrange_threes(codes, words);
  }
};

/// Codes of 8 bits would saturate vpmaddubsw: both sides become numbers of 16 bits.
template <>
struct Steps<8> {
  static constexpr int kUnitColumns = 4, kUnitWords = 1, kCount = 2;
  template <int Step>
  TESSERA_KERNELS_INLINE static Ints codes(const Ints* words) {
    return Step == 0 ? words[0] & 0xff00ff : (Ints)_mm256_srli_epi16(raw(words[0]), 8);
  }
  TESSERA_KERNELS_INLINE static Ints add(Ints sums, Ints codes, Ints token) {
    return sums + (Ints)_mm256_madd_epi16(raw(codes), raw(token));
  }
  TESSERA_KERNELS_INLINE static Ints widen(Ints sums) { return sums; }
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* words) {
    for (int i = 0; i < kColumns / 2; ++i) {
      const std::int8_t* pair = codes + i / 2 * 4 + i % 2;
      words[i] = (pair[0] & 0xffff) | pair[2] * (1 << 16);
    }
  }
};

struct Avx2A8 : Avx2 {
  static constexpr int kTile = 4;
  template <int Bits>
  using Steps = avx2::Steps<Bits>;

  TESSERA_KERNELS_INLINE static Ints bytes(const char* from) {
    return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
  }
  TESSERA_KERNELS_INLINE static void quantise_block(const void* from, Real type, std::int64_t count,
                                                    TokenBlock<1>* to) {
    cpu::quantise_block(from, type, count, to);
  }
};

}  // namespace

void dequant_gemm_a8(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  gemm_a8_of<Avx2A8>(x, w, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::avx2
