#pragma once

// From a lane's packed words to the operand `a` of the tensor cores, without leaving the registers.
// What comes out is code - zero_point, an integer that both 16-bit types hold exactly; the scale is
// applied to the f32 sum of a group, so the only rounding of the whole product is that of f32 sums.
//
// The trick (Kim et al., arXiv:2211.10017, FasterTransformer): a code placed in the low mantissa
// bits of a 16-bit real whose exponent makes those bits worth one is the number 1024 + code (f16)
// or 128 + code (bf16). One lop3 does that for two codes; one addition removes the offset and the
// zero point. Codes that lie s bits higher are worth 2^s times as much, which a fused multiply-add
// removes as well, so that most codes need no shift.

#include "intrinsics.cuh"
#include "layout.h"

namespace tessera::kernels::cuda {

struct F16 {
  static constexpr std::uint32_t kMagic = 0x64006400;  // 1024: ten mantissa bits
  static constexpr int kMantissaBits = 10;
  static constexpr std::uint32_t kOne = 0x3c00;
  static constexpr int kExponentShift = 10;
  TESSERA_DEVICE static std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return fma_f16x2(a, b, c);
  }
  TESSERA_DEVICE static void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
    mma_f16(c, a, b0, b1);
  }
  /// Bits of an integer of at most 11 bits, exact.
  TESSERA_DEVICE static std::uint32_t bits_of(float integer) { return f16_of_f32(integer); }
};

struct Bf16 {
  static constexpr std::uint32_t kMagic = 0x43004300;  // 128: seven mantissa bits
  static constexpr int kMantissaBits = 7;
  static constexpr std::uint32_t kOne = 0x3f80;
  static constexpr int kExponentShift = 7;
  TESSERA_DEVICE static std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return fma_bf16x2(a, b, c);
  }
  TESSERA_DEVICE static void mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                 std::uint32_t b1) {
    mma_bf16(c, a, b0, b1);
  }
  /// Bits of an integer of at most 8 bits, exact: an f32 of so few bits ends in sixteen zeros.
  TESSERA_DEVICE static std::uint32_t bits_of(float integer) {
    return __float_as_uint(integer) >> 16;
  }
};

/// What takes the offset and the zero point away again, for a row's codes `shift` bits up:
/// -(2^mantissa / 2^shift + zero_point), in both halves.
template <class Operand>
TESSERA_DEVICE std::uint32_t offset_pair(float zero_point, int shift) {
  return Operand::bits_of(
             -(static_cast<float>((1 << Operand::kMantissaBits) >> shift) + zero_point)) *
         0x10001u;
}

/// Offsets of the two rows that a lane holds, at the places where codes lie. Filled once a group.
template <class Operand>
struct Offsets {
  // 3 bits: shifts 0, 3, 6; 4 bits: shifts 0, 4; 8 bits: shift 0, or the zero point itself for
  // bf16.
  std::uint32_t at[3][2];
};

template <class Operand, int Bitwidth>
TESSERA_DEVICE constexpr int num_shifts() {
  return 1 + (Operand::kMantissaBits - Bitwidth) / Bitwidth * (Bitwidth < 8);
}

template <class Operand, int Bitwidth>
TESSERA_DEVICE void set_offsets(Offsets<Operand>& offsets, const float (&zero_point)[2]) {
#pragma unroll
  for (int s = 0; s < num_shifts<Operand, Bitwidth>(); ++s)
    for (int upper = 0; upper < 2; ++upper)
      offsets.at[s][upper] = offset_pair<Operand>(zero_point[upper], s * Bitwidth);
}

/// Two codes at bits `Place * Bitwidth` of both halves of `word`.
template <class Operand, int Bitwidth, int Place>
TESSERA_DEVICE std::uint32_t field_pair(std::uint32_t word, const Offsets<Operand>& offsets,
                                        int upper) {
  constexpr int kShifts = num_shifts<Operand, Bitwidth>();
  constexpr int kShift =
      Place % kShifts;  // places within reach of the mantissa once the word is shifted
  constexpr std::uint32_t kMask = ((1u << Bitwidth) - 1) * 0x10001u << (kShift * Bitwidth);
  const std::uint32_t raised =
      and_or(word >> (Place / kShifts * kShifts * Bitwidth), kMask, Operand::kMagic);
  // 2^-shift in both halves; for shift 0 the multiplication by one is an addition.
  constexpr std::uint32_t kUnit =
      (Operand::kOne - (static_cast<std::uint32_t>(kShift * Bitwidth) << Operand::kExponentShift)) *
      0x10001u;
  return Operand::fma(raised, kUnit, offsets.at[kShift][upper]);
}

template <class Operand>
TESSERA_DEVICE std::uint32_t byte_pair(std::uint32_t word, int high,
                                       const Offsets<Operand>& offsets, int upper);

template <>
TESSERA_DEVICE std::uint32_t byte_pair<F16>(std::uint32_t word, int high,
                                            const Offsets<F16>& offsets, int upper) {
  const std::uint32_t raised = pick_bytes(word, F16::kMagic, high ? 0x5352 : 0x5150);
  return F16::fma(raised, F16::kOne * 0x10001u, offsets.at[0][upper]);
}

/// A byte does not fit bf16's seven mantissa bits: through f32, where 0x4b000000 is 2^23.
template <>
TESSERA_DEVICE std::uint32_t byte_pair<Bf16>(std::uint32_t word, int high,
                                             const Offsets<Bf16>& offsets, int upper) {
  const float offset = __uint_as_float(offsets.at[0][upper]);
  const float a = __uint_as_float(pick_bytes(word, 0x4b000000, high ? 0x7442 : 0x7440)) + offset;
  const float b = __uint_as_float(pick_bytes(word, 0x4b000000, high ? 0x7443 : 0x7441)) + offset;
  return pick_bytes(__float_as_uint(a), __float_as_uint(b),
                    0x7632);  // both end in sixteen zero bits
}

template <>
TESSERA_DEVICE void set_offsets<Bf16, 8>(Offsets<Bf16>& offsets, const float (&zero_point)[2]) {
  for (int upper = 0; upper < 2; ++upper)
    offsets.at[0][upper] = __float_as_uint(-(8388608.0f + zero_point[upper]));
}

/// Operand `a` of step `Step` from the words of a lane.
template <class Operand, int Bitwidth, int Step>
TESSERA_DEVICE void unpack_step(const std::uint32_t (&words)[Bitwidth],
                                const Offsets<Operand>& offsets, std::uint32_t (&a)[4]) {
  if constexpr (Bitwidth == 8) {
    a[0] = byte_pair<Operand>(words[2 * Step], 0, offsets, 0);
    a[1] = byte_pair<Operand>(words[2 * Step], 1, offsets, 1);
    a[2] = byte_pair<Operand>(words[2 * Step + 1], 0, offsets, 0);
    a[3] = byte_pair<Operand>(words[2 * Step + 1], 1, offsets, 1);
  } else if constexpr (Bitwidth == 4 || Step < 3) {
    a[0] = field_pair<Operand, Bitwidth, 0>(words[Step], offsets, 0);
    a[1] = field_pair<Operand, Bitwidth, 1>(words[Step], offsets, 1);
    a[2] = field_pair<Operand, Bitwidth, 2>(words[Step], offsets, 0);
    a[3] = field_pair<Operand, Bitwidth, 3>(words[Step], offsets, 1);
  } else {
    a[0] = field_pair<Operand, 3, 4>(words[0], offsets, 0);
    a[1] = field_pair<Operand, 3, 4>(words[1], offsets, 1);
    a[2] = field_pair<Operand, 3, 4>(words[2], offsets, 0);
    // The scattered pair: bit 15 of both halves of each word.
    std::uint32_t code = and_or(words[0] >> 15, 0x00010001, Operand::kMagic);
    code = and_or(words[1] >> 14, 0x00020002, code);
    code = and_or(words[2] >> 13, 0x00040004, code);
    a[3] = Operand::fma(code, Operand::kOne * 0x10001u, offsets.at[0][1]);
  }
}

/// One code as an f32, for the kernels without tensor cores. `words` are the lane's.
template <int Bitwidth, int Step, int Pair, int Half>
TESSERA_DEVICE float code_of(const std::uint32_t (&words)[Bitwidth]) {
  constexpr Slot kSlot{0, Step, Pair, Half};
  constexpr BitPlace kFirst = bit_place(Bitwidth, kSlot, 0);
  if constexpr (is_scattered(Bitwidth, Step, Pair)) {
    std::uint32_t code = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) code |= (words[i] >> kFirst.bit & 1u) << i;
    return static_cast<float>(code);
  } else {
    return static_cast<float>(words[kFirst.word] >> kFirst.bit & ((1u << Bitwidth) - 1));
  }
}

/// A lane's words of one tile, straight from device memory.
template <int Bitwidth>
TESSERA_DEVICE void load_words(const std::uint32_t* tile, int lane,
                               std::uint32_t (&words)[Bitwidth]) {
  if constexpr (Bitwidth == 3) {
    uint2 v;
    load_once(v, tile + word_in_tile(3, lane, 0));
    words[0] = v.x;
    words[1] = v.y;
    load_once(words[2], tile + word_in_tile(3, lane, 2));
  } else {
#pragma unroll
    for (int i = 0; i < Bitwidth; i += 4) {
      uint4 v;
      load_once(v, tile + word_in_tile(Bitwidth, lane, i));
      words[i] = v.x;
      words[i + 1] = v.y;
      words[i + 2] = v.z;
      words[i + 3] = v.w;
    }
  }
}

/// The same from shared memory.
template <int Bitwidth>
TESSERA_DEVICE void read_words(const std::uint32_t* tile, int lane,
                               std::uint32_t (&words)[Bitwidth]) {
  if constexpr (Bitwidth == 3) {
    const uint2 v = *reinterpret_cast<const uint2*>(tile + word_in_tile(3, lane, 0));
    words[0] = v.x;
    words[1] = v.y;
    words[2] = tile[word_in_tile(3, lane, 2)];
  } else {
#pragma unroll
    for (int i = 0; i < Bitwidth; i += 4) {
      const uint4 v = *reinterpret_cast<const uint4*>(tile + word_in_tile(Bitwidth, lane, i));
      words[i] = v.x;
      words[i + 1] = v.y;
      words[i + 2] = v.z;
      words[i + 3] = v.w;
    }
  }
}

}  // namespace tessera::kernels::cuda
