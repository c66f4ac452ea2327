#include "ggml_blocks.h"
#include "ggml_grids.h"
#include "versions.h"

// IQ1, IQ2 and IQ3: codes are places of points in a grid, scales a few bits for 16 or 32 columns.
namespace tessera::kernels::cpu {
namespace {

constexpr std::uint8_t kValues2[4] = {8, 25, 43, 0};  // the fourth is in no grid
constexpr std::uint8_t kValues3Xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::uint8_t kValues3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};

float half_at(const std::uint8_t* in) { return load(in, Real::f16, 0); }
std::uint32_t word16(const std::uint8_t* in) {
  return in[0] | static_cast<std::uint32_t>(in[1]) << 8;
}
std::uint32_t word32(const std::uint8_t* in) { return word16(in) | word16(in + 2) << 16; }

/// Seven signs and their parity, which makes the number of minus signs even.
std::uint32_t even_signs(std::uint32_t seven) {
  std::uint32_t parity = seven ^ seven >> 4;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return seven | (parity & 1) << 7;
}

/// Columns of a point, `bits` each, with signs.
template <int columns, int bits, int zero>
void point(std::uint32_t entry, const std::uint8_t* values, std::uint32_t signs,
           std::uint8_t* codes) {
  for (int i = 0; i < columns; ++i) {
    const int value = values[entry >> (bits * i) & ((1 << bits) - 1)];
    codes[i] = static_cast<std::uint8_t>(zero + ((signs >> i & 1) != 0 ? -value : value));
  }
}

/// Eight columns of IQ1: -1, 0 or 1, and an eighth more or less; in eighths they are whole.
void point_of_iq1(std::uint32_t place, bool less, std::uint8_t* codes) {
  const std::uint32_t entry = kGridIq1[place];
  for (int i = 0; i < 8; ++i) {
    const int value = static_cast<int>(entry >> (2 * i) & 3) - 1;
    codes[i] = static_cast<std::uint8_t>(kZeroBelow16 + 8 * value + (less ? -1 : 1));
  }
}

/// Two 4-bit scales for each 32 columns.
void scales_of_16(const std::uint8_t* scales, float d, GgmlBlock* out) {
  for (int group = 0; group < 16; ++group) {
    const int scale = scales[group / 2] >> (group % 2 * 4) & 0xf;
    out->scale[group] = d * (0.5f + static_cast<float>(scale)) * 0.25f;
  }
}

}  // namespace

// { f16 d; u8 low[32]; u16 high[8] }: of 32 columns four places of 11 bits, a 3-bit scale, a sign.
void iq1_s(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in);
  for (int group = 0; group < 8; ++group) {
    const std::uint32_t high = word16(in + 34 + 2 * group);
    out->scale[group] = d * static_cast<float>(2 * (high >> 12 & 7) + 1) * 0.125f;
    for (int p = 0; p < 4; ++p) {
      const std::uint32_t place = in[2 + 4 * group + p] | (high >> (3 * p) & 7) << 8;
      point_of_iq1(place, (high & 0x8000) != 0, out->codes + 32 * group + 8 * p);
    }
  }
}

// { u8 low[32]; u8 high[16]; u16 scales[4] }: of a point three bits and a sign in a nibble, of 16
// columns a 3-bit scale; the four highest bits of the scales are the f16 d.
void iq1_m(const std::uint8_t* in, GgmlBlock* out) {
  const std::uint8_t* scales = in + 48;
  std::uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= word16(scales + 2 * i) >> 12 << (4 * i);
  const std::uint8_t d_bytes[2] = {static_cast<std::uint8_t>(bits & 0xff),
                                   static_cast<std::uint8_t>(bits >> 8)};
  const float d = half_at(d_bytes);
  for (int group = 0; group < 16; ++group) {
    const std::uint32_t scale = word16(scales + 2 * (group / 4)) >> (3 * (group % 4)) & 7;
    out->scale[group] = d * static_cast<float>(2 * scale + 1) * 0.125f;
    for (int p = 0; p < 2; ++p) {
      const std::uint32_t high = in[32 + group] >> (4 * p) & 0xf;
      point_of_iq1(in[2 * group + p] | (high & 7) << 8, (high & 8) != 0,
                   out->codes + 16 * group + 8 * p);
    }
  }
}

// { f16 d; { u8 places[4]; u32 signs }[8] }: four times seven signs, and a 4-bit scale.
void iq2_xxs(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in);
  for (int group = 0; group < 8; ++group) {
    const std::uint8_t* places = in + 2 + 8 * group;
    const std::uint32_t signs = word32(places + 4);
    out->scale[group] = d * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
    for (int p = 0; p < 4; ++p) {
      point<8, 2, kZeroBelow64>(kGridIq2Xxs[places[p]], kValues2,
                                even_signs(signs >> (7 * p) & 127),
                                out->codes + 32 * group + 8 * p);
    }
  }
}

// { f16 d; u16 points[32]; u8 scales[8] }: a place of 9 bits and seven signs.
void iq2_xs(const std::uint8_t* in, GgmlBlock* out) {
  scales_of_16(in + 66, half_at(in), out);
  for (int p = 0; p < 32; ++p) {
    const std::uint32_t word = word16(in + 2 + 2 * p);
    point<8, 2, kZeroBelow64>(kGridIq2Xs[word & 511], kValues2, even_signs(word >> 9),
                              out->codes + 8 * p);
  }
}

// { f16 d; u8 low[32]; u8 signs[32]; u8 high[8]; u8 scales[8] }: places of 10 bits.
void iq2_s(const std::uint8_t* in, GgmlBlock* out) {
  scales_of_16(in + 74, half_at(in), out);
  for (int p = 0; p < 32; ++p) {
    const std::uint32_t high = in[66 + p / 4] >> (2 * (p % 4)) & 3;
    point<8, 2, kZeroBelow64>(kGridIq2S[in[2 + p] | high << 8], kValues2, in[34 + p],
                              out->codes + 8 * p);
  }
}

// { f16 d; u8 places[64]; u32 signs[8] }: four times seven signs, and a 4-bit scale.
void iq3_xxs(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in);
  for (int group = 0; group < 8; ++group) {
    const std::uint32_t signs = word32(in + 66 + 4 * group);
    out->scale[group] = d * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
    for (int p = 0; p < 8; ++p) {
      const std::uint32_t eight = even_signs(signs >> (7 * (p / 2)) & 127);
      point<4, 3, kZeroBelow64>(kGridIq3Xxs[in[2 + 8 * group + p]], kValues3Xxs,
                                eight >> (4 * (p % 2)), out->codes + 32 * group + 4 * p);
    }
  }
}

// { f16 d; u8 low[64]; u8 high[8]; u8 signs[32]; u8 scales[4] }: places of 9 bits.
void iq3_s(const std::uint8_t* in, GgmlBlock* out) {
  const float d = half_at(in);
  for (int group = 0; group < 8; ++group) {
    const int scale = in[106 + group / 2] >> (group % 2 * 4) & 0xf;
    out->scale[group] = d * static_cast<float>(1 + 2 * scale);
    for (int p = 0; p < 8; ++p) {
      const std::uint32_t high = in[66 + group] >> p & 1;
      point<4, 3, kZeroBelow16>(
          kGridIq3S[in[2 + 8 * group + p] | high << 8], kValues3S,
          static_cast<std::uint32_t>(in[74 + 4 * group + p / 2] >> (4 * (p % 2))),
          out->codes + 32 * group + 4 * p);
    }
  }
}

}  // namespace tessera::kernels::cpu
