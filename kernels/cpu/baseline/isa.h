#pragma once

#include "../simd/vector.h"

// What the texts of cpu/simd need of an instruction set beyond the compiler's vectors: here, of
// every CPU of the architecture.
namespace tessera::kernels::cpu {
namespace {

struct BaselineIsa {
  static constexpr int kLanes = 4;
  static constexpr int kSums = 8;  ///< vectors of sums that a product keeps in registers
  using Floats = Simd<kLanes>::Floats;

  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
  /// The first unless the second is larger or either is a NaN.
  TESSERA_KERNELS_INLINE static Floats max(Floats a, Floats b) { return a > b ? a : b; }
  TESSERA_KERNELS_INLINE static Floats sqrt(Floats a) {
    for (int i = 0; i < kLanes; ++i) a[i] = __builtin_sqrtf(a[i]);
    return a;
  }
  /// `count` < kLanes numbers; the other lanes are 0.
  TESSERA_KERNELS_INLINE static Floats read_part(const float* from, std::int64_t count) {
    Floats v{};
    for (int i = 0; i < count; ++i) v[i] = from[i];
    return v;
  }
  TESSERA_KERNELS_INLINE static void write_part(float* to, Floats v, std::int64_t count) {
    for (int i = 0; i < count; ++i) to[i] = v[i];
  }
  TESSERA_KERNELS_INLINE static Floats from_f16(const void* from) {
    Floats v{};
    for (int i = 0; i < kLanes; ++i) v[i] = load(from, Real::f16, i);
    return v;
  }
  TESSERA_KERNELS_INLINE static Floats from_bf16(const void* from) {
    Floats v{};
    for (int i = 0; i < kLanes; ++i) v[i] = load(from, Real::bf16, i);
    return v;
  }
  TESSERA_KERNELS_INLINE static Floats from_int8(const void* from) {
    std::int8_t codes[kLanes];
    __builtin_memcpy(codes, from, kLanes);
    Simd<kLanes>::Ints v{};
    for (int i = 0; i < kLanes; ++i) v[i] = codes[i];
    return __builtin_convertvector(v, Floats);
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
