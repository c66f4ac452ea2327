#pragma once

// Codes as the decode kernel gives them to the tensor cores: as they stand, without arithmetic.
//
// A code in the low mantissa bits of an f16 whose other bits are zero is a subnormal number, code *
// 2^-24, which tensor cores multiply like any other (Fasi et al., Numerical behavior of NVIDIA
// tensor cores, 2021, section 3). bf16 has f32's exponents, so products with its subnormals would
// vanish: there the codes get the exponent that makes them 128 + code. Either way one lop3 makes
// two numbers, and what they lack is one number per row and group:
//
//     sum of weight * x = unit * scale * (sum of number * x - excess * sum of one * x)
//
// where the sum of one * x comes from the tensor cores as well, with ones as the operand a. The
// codes of a row all stand the same number of bits up, so that this factor belongs to its unit.

#include "gemm_arguments.cuh"
#include "unpack.cuh"

namespace tessera::kernels::cuda {

template <class Operand, int Bitwidth>
struct DecodeCodes;

/// Rows g + 8 stand a field higher than rows g, as in the packed word.
template <int Bitwidth>
struct DecodeCodes<F16, Bitwidth> {
  using Operand = F16;
  static constexpr int kBits = Bitwidth;
  static constexpr std::uint32_t kBase = 0;
  TESSERA_BOTH static constexpr int up(int upper) { return upper && Bitwidth < 8 ? Bitwidth : 0; }
  TESSERA_BOTH static constexpr std::uint32_t ones(int upper) { return 0x00010001u << up(upper); }
  TESSERA_BOTH static constexpr float unit(int upper) { return 16777216.0f / (1 << up(upper)); }
  /// The excess is zero_point * zero_unit + excess.
  TESSERA_BOTH static constexpr float zero_unit(int) { return 1; }
  TESSERA_BOTH static constexpr float excess(int) { return 0; }
};

/// Two 4-bit fields do not fit seven mantissa bits, two 3-bit fields do. Bytes become integers.
template <int Bitwidth>
struct DecodeCodes<Bf16, Bitwidth> {
  using Operand = Bf16;
  static constexpr int kBits = Bitwidth;
  static constexpr std::uint32_t kBase = Bf16::kMagic;
  TESSERA_BOTH static constexpr int up(int upper) { return upper && Bitwidth == 3 ? 3 : 0; }
  TESSERA_BOTH static constexpr std::uint32_t ones(int) { return Bf16::kOne * 0x10001u; }
  TESSERA_BOTH static constexpr float unit(int upper) { return 1.0f / (1 << up(upper)); }
  TESSERA_BOTH static constexpr float zero_unit(int upper) { return 1 << up(upper); }
  TESSERA_BOTH static constexpr float excess(int) { return Bitwidth < 8 ? 128 : 0; }
};

/// The scattered pair of 3-bit codes: bit 15 of both halves of each word.
template <class Codes>
TESSERA_DEVICE std::uint32_t scattered_pair(const std::uint32_t (&words)[3]) {
  constexpr int kUp = Codes::up(1);
  std::uint32_t code = and_or(words[0] >> (15 - kUp), 0x00010001u << kUp, Codes::kBase);
  code = and_or(words[1] >> (14 - kUp), 0x00020002u << kUp, code);
  return and_or(words[2] >> (13 - kUp), 0x00040004u << kUp, code);
}

/// Both bytes of an 8-bit register pair.
TESSERA_DEVICE std::uint32_t byte_numbers(F16, std::uint32_t word, int high) {
  return pick_bytes(word, 0, high ? 0x4342 : 0x4140);
}
/// A byte does not fit bf16's seven mantissa bits: through f32, where 0x4b000000 is 2^23. Both end
/// in sixteen zero bits.
TESSERA_DEVICE std::uint32_t byte_numbers(Bf16, std::uint32_t word, int high) {
  const float a =
      __uint_as_float(pick_bytes(word, 0x4b000000, high ? 0x7442 : 0x7440)) - 8388608.0f;
  const float b =
      __uint_as_float(pick_bytes(word, 0x4b000000, high ? 0x7443 : 0x7441)) - 8388608.0f;
  return pick_bytes(__float_as_uint(a), __float_as_uint(b), 0x7632);
}

/// The operand `a` of one of the four mma of a tile, from a lane's words. `step` is a constant once
/// loops are unrolled.
template <class Codes>
TESSERA_DEVICE void take_step(const std::uint32_t (&words)[Codes::kBits], int step,
                              std::uint32_t (&a)[4]) {
  constexpr int kBits = Codes::kBits;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    const int up = Codes::up(pair % 2);
    if constexpr (kBits == 8) {
      a[pair] = byte_numbers(typename Codes::Operand{}, words[2 * step + pair / 2], pair % 2);
    } else {
      if constexpr (kBits == 3) {
        if (is_scattered(kBits, step, pair)) {
          a[pair] = scattered_pair<Codes>(words);
          continue;
        }
      }
      const Field field = field_of(kBits, step, pair);
      a[pair] = and_or(words[field.word] >> (kBits * field.index - up),
                       ((1u << kBits) - 1) * 0x10001u << up, Codes::kBase);
    }
  }
}

/// What a group's sums are multiplied with and what is taken from them, for a lane's two rows.
struct DecodeScale {
  float scale[2], excess[2];
};

/// Scales (f16 or bf16) and zero points of a lane's two rows as they are in memory.
struct RawDecodeScale {
  std::uint32_t scales, zero_points;
};

template <class Codes>
TESSERA_DEVICE DecodeScale decode_scale(const GemmArguments& p, RawDecodeScale raw) {
  DecodeScale out;
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
    const auto bits = static_cast<std::uint16_t>(raw.scales >> (16 * upper));
    const float scale = scale_of_16(p, bits);
    out.scale[upper] = scale * Codes::unit(upper);
    // A byte under the exponent of 2^23 is 2^23 + byte, so one exact multiply-add does the rest.
    const float zero_point =
        __uint_as_float(pick_bytes(raw.zero_points, 0x4b000000, 0x7440 + upper));
    out.excess[upper] = zero_point * Codes::zero_unit(upper) +
                        (Codes::excess(upper) - 8388608.0f * Codes::zero_unit(upper));
  }
  return out;
}

}  // namespace tessera::kernels::cuda
