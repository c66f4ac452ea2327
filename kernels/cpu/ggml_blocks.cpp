#include "ggml_blocks.h"

#include <cmath>
#include <cstring>
#include <iterator>

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
    for (int part = 0; part < 4; ++part) {
      std::uint8_t* to = codes + 128 * half + 32 * part;
      for (int i = 0; i < 32; ++i) {
        const int two = bytes[32 * half + i] >> (2 * part) & 3;
        to[i] = static_cast<std::uint8_t>(to[i] | two << shift);
      }
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

// Source: kvalues_iq4nl in ggml-common.h.
constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

/// Low nibbles of bytes, then high ones, each the place of a value that is kept with a zero.
void chosen_values(const std::uint8_t* bytes, int count, const std::int8_t* values, int zero,
                   std::uint8_t* codes) {
  nibbles(bytes, count, codes);
  for (int i = 0; i < 2 * count; ++i) codes[i] = static_cast<std::uint8_t>(values[codes[i]] + zero);
}

// { f16 d; u8 codes[16] }
void iq4_nl(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = half_at(in);
  chosen_values(in + 2, 16, kIq4Values, kZeroOf8Bits, out->codes);
}

// { f16 d; u16 high; u8 low[4]; u8 codes[128] }: eight 6-bit scales.
void iq4_xs(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in);
  const int high = in[2] | in[3] << 8;
  for (int group = 0; group < 8; ++group) {
    const int scale = (in[4 + group / 2] >> (group % 2 * 4) & 0xf) | (high >> (2 * group) & 3) << 4;
    out->scale[group] = d * static_cast<float>(scale - 32);
    chosen_values(in + 8 + group * 16, 16, kIq4Values, kZeroOf8Bits, out->codes + group * 32);
  }
}

// Twice the values of E2M1, of which scales are half: both are whole numbers in eight bits.
constexpr std::int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// { e8m0 d; u8 codes[16] }
void mxfp4(const std::uint8_t* in, GgmlBlock* out) {
  out->scale[0] = std::ldexp(1.0f, in[0] - 128);
  chosen_values(in + 1, 16, kTwiceE2m1, kZeroBelow16, out->codes);
}

// { ue4m3 d[4]; u8 codes[32] }: four groups of 16; 0x7f, which would be no number, is zero.
void nvfp4(const std::uint8_t* in, GgmlBlock* out) {
  for (int group = 0; group < 4; ++group) {
    const int exponent = in[group] >> 3 & 0xf, mantissa = in[group] & 7;
    const float scale = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                      : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    out->scale[group] = in[group] == 0x7f ? 0.0f : scale / 2;
    chosen_values(in + 4 + group * 8, 8, kTwiceE2m1, kZeroBelow16, out->codes + group * 16);
  }
}

void same_scale(float scale, int groups, GgmlBlock* out) {
  for (int group = 0; group < groups; ++group) out->scale[group] = scale;
}

// { f16 d; u8 signs[16] }: -d or d.
void q1_0(const std::uint8_t* in, GgmlBlock* out) {
  same_scale(half_at(in), 4, out);
  for (int i = 0; i < 128; ++i)
    out->codes[i] = static_cast<std::uint8_t>((in[2 + i / 8] >> (i % 8) & 1) * 2);
}

// { f16 d; u8 codes[16] }: four neighbours in a byte.
void q2_0(const std::uint8_t* in, GgmlBlock* out) {
  same_scale(half_at(in), 2, out);
  for (int i = 0; i < 64; ++i)
    out->codes[i] = static_cast<std::uint8_t>(in[2 + i / 4] >> (i % 4 * 2) & 3);
}

// { u8 fives[48]; u8 fours[4]; f16 d }: five digits to the base of 3 in a byte, as a fraction of
// 256; the first 32 bytes have 160 columns, digit by digit, the next 16 have 80 and the last four,
// with four digits each, 16.
void tq1_0(const std::uint8_t* in, GgmlBlock* out) {
  constexpr struct { int first, bytes, digits; } kParts[] = {{0, 32, 5}, {32, 16, 5}, {48, 4, 4}};
  same_scale(half_at(in + 52), 8, out);
  std::uint8_t* codes = out->codes;
  for (const auto& part : kParts) {
    int power = 1;
    for (int digit = 0; digit < part.digits; ++digit, power *= 3) {
      for (int i = 0; i < part.bytes; ++i)
        *codes++ = static_cast<std::uint8_t>((in[part.first + i] * power & 0xff) * 3 >> 8);
    }
  }
}

// { u8 codes[64]; f16 d }
void tq2_0(const std::uint8_t* in, GgmlBlock* out) {
  same_scale(half_at(in + 64), 8, out);
  std::memset(out->codes, 0, kGgmlColumns);
  add_pairs(in, 0, out->codes);
}

// { f32 d; i8 codes[256]; i16 sums[16] }
void q8_k(const std::uint8_t* in, GgmlBlock* out) {
  same_scale(load(in, Real::f32, 0), 8, out);
  for (int i = 0; i < kGgmlColumns; ++i) out->codes[i] = in[4 + i] ^ 0x80;
}

/// With the decoder and the sizes known beforehand compilers make one loop of vectors of it.
template <void (*decode)(const std::uint8_t*, GgmlBlock*), int block_bytes, int columns>
void decode_blocks(const std::uint8_t* in, std::int64_t num_blocks, const CodeFormat& format,
                   std::int8_t* codes, float* scale, float* minimum) {
  const auto groups = static_cast<int>(columns / format.group_size);
  const bool has_minima = format.offset == Offset::minima;
  const int zero = has_minima ? 0 : format.zero;
  GgmlBlock block;
  for (std::int64_t b = 0; b < num_blocks; ++b, in += block_bytes) {
    decode(in, &block);
    for (int i = 0; i < columns; ++i) codes[i] = static_cast<std::int8_t>(block.codes[i] - zero);
    for (int g = 0; g < groups; ++g) scale[g] = block.scale[g];
    if (has_minima)
      for (int g = 0; g < groups; ++g) minimum[g] = block.minimum[g];
    codes += columns;
    scale += groups;
    minimum += groups;
  }
}

template <void (*decode)(const std::uint8_t*, GgmlBlock*), int block_bytes, int columns>
constexpr GgmlFormat format(CodeFormat codes) {
  return {block_bytes, columns, codes, decode, decode_blocks<decode, block_bytes, columns>};
}

constexpr CodeFormat with_zero(int bitwidth, int group_size, Real scales, int zero) {
  return {bitwidth, group_size, scales, Offset::zero, zero};
}
constexpr CodeFormat with_minima(int bitwidth, int group_size, Real scales) {
  return {bitwidth, group_size, scales, Offset::minima, 0};
}

}  // namespace

const GgmlFormat* ggml_format(GgmlType type) {
  constexpr CodeFormat kBits8 = with_zero(8, 32, Real::f32, kZeroOf8Bits),
                       kBelow16 = with_zero(8, 32, Real::f32, kZeroBelow16),
                       kBelow16By16 = with_zero(8, 16, Real::f32, kZeroBelow16),
                       kBelow64 = with_zero(8, 32, Real::f32, kZeroBelow64),
                       kBelow64By16 = with_zero(8, 16, Real::f32, kZeroBelow64),
                       kTernary = with_zero(4, 32, Real::f16, 1);
  static constexpr GgmlFormat kFormats[] = {
      format<q4_0, 18, 32>(with_zero(4, 32, Real::f16, 8)),
      format<q4_1, 20, 32>(with_minima(4, 32, Real::f16)),
      format<q5_0, 22, 32>(with_zero(8, 32, Real::f16, 16)),
      format<q5_1, 24, 32>(with_minima(8, 32, Real::f16)),
      format<q8_0, 34, 32>(with_zero(8, 32, Real::f16, kZeroOf8Bits)),
      format<q2_k, 84, 256>(with_minima(4, 16, Real::f32)),
      format<q3_k, 110, 256>(with_zero(4, 16, Real::f32, 4)),
      format<q4_k, 144, 256>(with_minima(4, 32, Real::f32)),
      format<q5_k, 176, 256>(with_minima(8, 32, Real::f32)),
      format<q6_k, 210, 256>(with_zero(8, 16, Real::f32, 32)),
      format<q8_k, 292, 256>(kBits8),
      format<iq1_s, 50, 256>(kBelow16),
      format<iq1_m, 56, 256>(kBelow16By16),
      format<iq2_xxs, 66, 256>(kBelow64),
      format<iq2_xs, 74, 256>(kBelow64By16),
      format<iq2_s, 82, 256>(kBelow64By16),
      format<iq3_xxs, 98, 256>(kBelow64),
      format<iq3_s, 110, 256>(kBelow16),
      format<iq4_nl, 18, 32>(with_zero(8, 32, Real::f16, kZeroOf8Bits)),
      format<iq4_xs, 136, 256>(kBits8),
      format<tq1_0, 54, 256>(kTernary),
      format<tq2_0, 66, 256>(kTernary),
      format<mxfp4, 17, 32>(kBelow16),
      format<nvfp4, 36, 64>(kBelow16By16),
      format<q1_0, 18, 128>(kTernary),
      format<q2_0, 18, 64>(kTernary)};
  static_assert(std::size(kFormats) == kNumGgmlTypes, "in the order of GgmlType");
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(kFormats) ? &kFormats[index] : nullptr;
}

}  // namespace tessera::kernels::cpu
