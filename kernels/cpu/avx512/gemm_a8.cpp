// dequant_gemm_a8 with VNNI: vpdpbusd multiplies four unsigned codes by four of a token and adds
// the products to 32 bits.
#include "../simd/gemm_a8.h"

#include <immintrin.h>

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

struct Avx512A8 : Avx512 {
  static constexpr int kTile = 8;
  template <int Bits>
  using Steps = avx512::Steps<Bits>;

  TESSERA_KERNELS_INLINE static Ints bytes(const char* from) {
    return (Ints)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  TESSERA_KERNELS_INLINE static void quantise_block(const void* from, Real type, std::int64_t count,
                                                    TokenBlock* to) {
    cpu::quantise_block(from, type, count, to);
  }
};

}  // namespace

void dequant_gemm_a8(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  gemm_a8_of<Avx512A8>(x, w, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::avx512
