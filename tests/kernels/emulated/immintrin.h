#pragma once

#include <cstdint>
#include <cstring>

#include "tessera/kernels/types.h"

// The intrinsics that the version of int8_gemm for AVX-512 VNNI uses, in plain C++: found in place
// of the compiler's header where the tests compile that version a second time, so that their text
// is run on machines without the instructions. Each does what Intel's "Intrinsics Guide" says of
// it, one element after another. The compiler's own use of the instructions is not tested by this.

typedef std::int32_t __m512i __attribute__((vector_size(64), may_alias));

namespace tessera::kernels::emulated {

template <class V>
inline V read(const void* from) {
  V v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

}  // namespace tessera::kernels::emulated

inline __m512i _mm512_load_si512(const void* from) {
  return tessera::kernels::emulated::read<__m512i>(from);
}
inline __m512i _mm512_set1_epi32(std::int32_t value) { return value - __m512i{}; }

/// Four products of unsigned by signed bytes are added to each 32-bit sum, without saturation.
inline __m512i _mm512_dpbusd_epi32(__m512i sums, __m512i a, __m512i b) {
  std::uint8_t left[64];
  std::int8_t right[64];
  std::memcpy(left, &a, 64);
  std::memcpy(right, &b, 64);
  for (int i = 0; i < 64; ++i) sums[i / 4] += left[i] * right[i];
  return sums;
}
