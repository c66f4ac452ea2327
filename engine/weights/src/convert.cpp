#include "convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/core/error.h"

namespace tessera::weights {
namespace {

template <typename Stored, typename Convert>
void each(const std::byte* in, std::int64_t count, float* out, const Convert& convert) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, in + static_cast<std::size_t>(i) * sizeof(Stored), sizeof(Stored));
    out[i] = convert(stored);
  }
}

template <typename Number>
void each_number(const std::byte* in, std::int64_t count, float* out) {
  each<Number>(in, count, out, [](Number value) { return static_cast<float>(value); });
}

// A float of 8 bits with `exponent_bits` after the sign. E4M3 gives its highest exponent to numbers
// and only its last pattern to NaN; E5M2 is like IEEE's. Source: Micikevicius et al. (2022), "FP8
// Formats for Deep Learning", Table 1.
float f32_of_f8(unsigned bits, int exponent_bits) {
  const int mantissa_bits = 7 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = static_cast<int>(bits) & ((1 << mantissa_bits) - 1);
  const float sign = (bits & 0x80) != 0 ? -1.0f : 1.0f;
  const bool special = exponent == (1 << exponent_bits) - 1;
  if (exponent_bits == 4 ? (bits & 0x7f) == 0x7f : special && mantissa != 0) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent_bits == 5 && special) return sign * std::numeric_limits<float>::infinity();
  const int implicit = exponent == 0 ? 0 : 1 << mantissa_bits;
  return sign * std::ldexp(static_cast<float>(implicit + mantissa),
                           (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

template <int exponent_bits>
const std::array<float, 256>& f8_table() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> made{};
    for (unsigned bits = 0; bits < 256; ++bits) made[bits] = f32_of_f8(bits, exponent_bits);
    return made;
  }();
  return table;
}

template <int exponent_bits>
void each_f8(const std::byte* in, std::int64_t count, float* out) {
  const auto& table = f8_table<exponent_bits>();
  each<std::uint8_t>(in, count, out, [&table](std::uint8_t bits) { return table[bits]; });
}

}  // namespace

void convert_elements(DType dtype, const std::byte* in, std::int64_t count, float* out) {
  switch (dtype) {
    case DType::f64:
      return each_number<double>(in, count, out);
    case DType::f32:
      if (count > 0) std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(float));
      return;
    case DType::f16:
      return each<std::uint16_t>(in, count, out,
                                 [](std::uint16_t bits) { return f32_of_f16(bits); });
    case DType::bf16:
      return each<std::uint16_t>(in, count, out, [](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
    case DType::f8_e4m3:
      return each_f8<4>(in, count, out);
    case DType::f8_e5m2:
      return each_f8<5>(in, count, out);
    case DType::f8_e8m0:  // scales of MX formats: an exponent, and only its last pattern is NaN
      return each<std::uint8_t>(in, count, out, [](std::uint8_t bits) {
        return bits == 0xff ? std::numeric_limits<float>::quiet_NaN()
                            : std::ldexp(1.0f, bits - 127);
      });
    case DType::i64:
      return each_number<std::int64_t>(in, count, out);
    case DType::i32:
      return each_number<std::int32_t>(in, count, out);
    case DType::i16:
      return each_number<std::int16_t>(in, count, out);
    case DType::i8:
      return each_number<std::int8_t>(in, count, out);
    case DType::u64:
      return each_number<std::uint64_t>(in, count, out);
    case DType::u32:
      return each_number<std::uint32_t>(in, count, out);
    case DType::u16:
      return each_number<std::uint16_t>(in, count, out);
    case DType::u8:
      return each_number<std::uint8_t>(in, count, out);
    case DType::boolean:
      return each<std::uint8_t>(in, count, out,
                                [](std::uint8_t b) { return b != 0 ? 1.0f : 0.0f; });
    default:
      throw Error(ErrorCode::internal, "no conversion of " + std::string(to_string(dtype)));
  }
}

}  // namespace tessera::weights
