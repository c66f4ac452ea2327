#include "ggml_blocks.h"

#include <cstring>

#include "versions.h"

namespace tessera::kernels::cpu {
namespace {

float half_at(const std::uint8_t* in) { return load(in, Real::f16, 0); }

/// Low nibbles of the bytes are the first `count` codes, high nibbles the next.
void nibbles(const std::uint8_t* bytes, int count, std::uint8_t* codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = bytes[i] & 0xf;
    codes[count + i] = bytes[i] >> 4;
  }
}

/// Nibbles and a fifth bit, from a word of 32 bits.
void five_bits(const std::uint8_t* high, const std::uint8_t* low, std::uint8_t* codes) {
  nibbles(low, 16, codes);
  for (int i = 0; i < 32; ++i) {
    codes[i] = static_cast<std::uint8_t>(codes[i] | (high[i / 8] >> (i % 8) & 1) << 4);
  }
}

/// The number `i` of eight 6-bit pairs of a scale and a minimum in 12 bytes: the first four are the
/// low bits of bytes, the others four bits and two of those bytes' high ones.
int scale_of(const std::uint8_t* scales, int i) {
  return i < 4 ? scales[i] & 63 : (scales[i + 4] & 0xf) | scales[i - 4] >> 6 << 4;
}
int minimum_of(const std::uint8_t* scales, int i) {
  return i < 4 ? scales[i + 4] & 63 : scales[i + 4] >> 4 | scales[i] >> 6 << 4;
}

/// Eight groups of 32 behind { f16 d, dmin; u8 scales[12] }.
void groups_of_32(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in), dmin = half_at(in + 2);
  for (int group = 0; group < 8; ++group) {
    out->scale[group] = d * static_cast<float>(scale_of(in + 4, group));
    out->minimum[group] = -(dmin * static_cast<float>(minimum_of(in + 4, group)));
  }
}

/// Two halves of 128 codes; in each, column 32 * part + i has two bits of byte i.
void add_pairs(const std::uint8_t* bytes, int shift, std::uint8_t* codes) {
  for (int half = 0; half < 2; ++half) {
    for (int column = 0; column < 128; ++column) {
      const int two = bytes[32 * half + column % 32] >> (column / 32 * 2) & 3;
      std::uint8_t& code = codes[128 * half + column];
      code = static_cast<std::uint8_t>(code | two << shift);
    }
  }
}

// { f16 d; u8 codes[16] }
void q4_0(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  nibbles(in + 2, 16, out->codes);
}

// { f16 d, m; u8 codes[16] }
void q4_1(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  out->minimum[0] = half_at(in + 2);
  nibbles(in + 4, 16, out->codes);
}

// { f16 d; u8 high[4]; u8 codes[16] }
void q5_0(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  five_bits(in + 2, in + 6, out->codes);
}

// { f16 d, m; u8 high[4]; u8 codes[16] }
void q5_1(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  out->minimum[0] = half_at(in + 2);
  five_bits(in + 4, in + 8, out->codes);
}

// { f16 d; i8 codes[32] }
void q8_0(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  for (int i = 0; i < 32; ++i) out->codes[i] = in[2 + i] ^ 0x80;
}

// { u8 scales[16]; u8 codes[64]; f16 d, dmin }
void q2_k(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in + 80), dmin = half_at(in + 82);
  for (int group = 0; group < 16; ++group) {
    out->scale[group] = d * static_cast<float>(in[group] & 0xf);
    out->minimum[group] = -(dmin * static_cast<float>(in[group] >> 4));
  }
  std::memset(out->codes, 0, kGgmlColumns);
  add_pairs(in + 16, 0, out->codes);
}

// { u8 high[32]; u8 low[64]; u8 scales[12]; f16 d }: column 32 * i + j has bit i of high[j].
// Sixteen 6-bit scales: four bits in the first 8 bytes, two in the last 4.
void q3_k(const std::uint8_t* in, GgmlBlock* out) {
  const std::uint8_t* scales = in + 96;
  const float d = half_at(in + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? scales[group] & 0xf : scales[group - 8] >> 4;
    const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    out->scale[group] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < kGgmlColumns; ++i) {
    out->codes[i] = static_cast<std::uint8_t>((in[i % 32] >> (i / 32) & 1) << 2);
  }
  add_pairs(in + 32, 0, out->codes);
}

// { f16 d, dmin; u8 scales[12]; u8 codes[128] }
void q4_k(const std::uint8_t* in, GgmlBlock* out) {
  groups_of_32(in, out);
  for (int pair = 0; pair < 4; ++pair) nibbles(in + 16 + pair * 32, 32, out->codes + pair * 64);
}

// { f16 d, dmin; u8 scales[12]; u8 high[32]; u8 codes[128] }: column 32 * i + j has bit i of
// high[j].
void q5_k(const std::uint8_t* in, GgmlBlock* out) {
  groups_of_32(in, out);
  for (int pair = 0; pair < 4; ++pair) nibbles(in + 48 + pair * 32, 32, out->codes + pair * 64);
  for (int i = 0; i < kGgmlColumns; ++i) {
    const int high = in[16 + i % 32] >> (i / 32) & 1;
    out->codes[i] = static_cast<std::uint8_t>(out->codes[i] | high << 4);
  }
}

// { u8 low[128]; u8 high[64]; i8 scales[16]; f16 d }
void q6_k(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in + 208);
  for (int group = 0; group < 16; ++group) {
    out->scale[group] = d * static_cast<float>(static_cast<std::int8_t>(in[192 + group]));
  }
  for (int half = 0; half < 2; ++half) nibbles(in + half * 64, 64, out->codes + half * 128);
  add_pairs(in + 128, 4, out->codes);
}

constexpr CodeFormat with_zero(int bitwidth, int group_size, Real scales, int zero) {
  return {bitwidth, group_size, scales, Offset::zero, zero};
}
constexpr CodeFormat with_minima(int bitwidth, int group_size, Real scales) {
  return {bitwidth, group_size, scales, Offset::minima, 0};
}

}  // namespace

const GgmlFormat* ggml_format(GgmlType type) {
  static constexpr GgmlFormat kQ4_0{18, 32, with_zero(4, 32, Real::f16, 8), q4_0},
      kQ4_1{20, 32, with_minima(4, 32, Real::f16), q4_1},
      kQ5_0{22, 32, with_zero(8, 32, Real::f16, 16), q5_0},
      kQ5_1{24, 32, with_minima(8, 32, Real::f16), q5_1},
      kQ8_0{34, 32, with_zero(8, 32, Real::f16, 128), q8_0},
      kQ2_k{84, 256, with_minima(4, 16, Real::f32), q2_k},
      kQ3_k{110, 256, with_zero(4, 16, Real::f32, 4), q3_k},
      kQ4_k{144, 256, with_minima(4, 32, Real::f32), q4_k},
      kQ5_k{176, 256, with_minima(8, 32, Real::f32), q5_k},
      kQ6_k{210, 256, with_zero(8, 16, Real::f32, 32), q6_k};
  switch (type) {
    case GgmlType::q4_0:
      return &kQ4_0;
    case GgmlType::q4_1:
      return &kQ4_1;
    case GgmlType::q5_0:
      return &kQ5_0;
    case GgmlType::q5_1:
      return &kQ5_1;
    case GgmlType::q8_0:
      return &kQ8_0;
    case GgmlType::q2_k:
      return &kQ2_k;
    case GgmlType::q3_k:
      return &kQ3_k;
    case GgmlType::q4_k:
      return &kQ4_k;
    case GgmlType::q5_k:
      return &kQ5_k;
    case GgmlType::q6_k:
      return &kQ6_k;
  }
  return nullptr;
}

}  // namespace tessera::kernels::cpu
