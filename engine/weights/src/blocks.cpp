// Blocks of ggml. Source: ggml-quants.c (dequantize_row_*) and ggml-common.h of llama.cpp.
#include <cstring>
#include <string>

#include "convert.h"
#include "tessera/core/error.h"

namespace tessera::weights {
namespace {

constexpr int kSmall = 32;   // elements of a plain block
constexpr int kSuper = 256;  // elements of a "K" block

const std::uint8_t* bytes_of(const std::byte* in) {
  return reinterpret_cast<const std::uint8_t*>(in);
}

float half_at(const std::uint8_t* in) {
  std::uint16_t bits;
  std::memcpy(&bits, in, sizeof bits);
  return f32_of_f16(bits);
}

// Codes first become whole bytes, then floats: compilers make vector code of both loops, but not of
// one that does both.
template <int count>
void times(const std::int8_t* codes, float step, float* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<float>(codes[i]) * step;
}

// Low halves of the bytes are the first `count` codes, high halves the next.
template <int count>
void halves(const std::uint8_t* bytes, std::int8_t* codes) {
  for (int i = 0; i < count; ++i) codes[i] = static_cast<std::int8_t>(bytes[i] & 0xf);
  for (int i = 0; i < count; ++i) codes[count + i] = static_cast<std::int8_t>(bytes[i] >> 4);
}

// { f16 d; u8 codes[16] }
void q4_0(const std::uint8_t* in, float* out) {
  std::int8_t codes[kSmall];
  halves<kSmall / 2>(in + 2, codes);
  for (std::int8_t& code : codes) code = static_cast<std::int8_t>(code - 8);
  times<kSmall>(codes, half_at(in), out);
}

// { f16 d, m; u8 codes[16] }
void q4_1(const std::uint8_t* in, float* out) {
  const float d = half_at(in), m = half_at(in + 2);
  std::int8_t codes[kSmall];
  halves<kSmall / 2>(in + 4, codes);
  for (int i = 0; i < kSmall; ++i) out[i] = static_cast<float>(codes[i]) * d + m;
}

// { f16 d; i8 codes[32] }
void q8_0(const std::uint8_t* in, float* out) {
  std::int8_t codes[kSmall];
  std::memcpy(codes, in + 2, sizeof codes);
  times<kSmall>(codes, half_at(in), out);
}

// { f16 d, dmin; u8 scales[12]; u8 codes[128] }: eight groups of 32, each with a scale and a
// minimum of 6 bits, packed so that the first four are whole bytes' low bits.
void q4_k(const std::uint8_t* in, float* out) {
  const float d = half_at(in), dmin = half_at(in + 2);
  const std::uint8_t* scales = in + 4;
  std::int8_t codes[kSuper];
  for (int pair = 0; pair < 4; ++pair) halves<32>(in + 16 + pair * 32, codes + pair * 64);
  for (int group = 0; group < 8; ++group) {
    int scale = scales[group] & 63, minimum = scales[group + 4] & 63;
    if (group >= 4) {
      scale = (scales[group + 4] & 0xf) | (scales[group - 4] >> 6 << 4);
      minimum = (scales[group + 4] >> 4) | (scales[group] >> 6 << 4);
    }
    const float step = d * static_cast<float>(scale);
    const float low = dmin * static_cast<float>(minimum);
    const std::int8_t* from = codes + group * 32;
    for (int i = 0; i < 32; ++i) out[group * 32 + i] = step * static_cast<float>(from[i]) - low;
  }
}

// { u8 low[128]; u8 high[64]; i8 scales[16]; f16 d }: 6-bit codes in four bits and two, sixteen
// groups of 16, in two halves of 128.
void q6_k(const std::uint8_t* in, float* out) {
  const float d = half_at(in + 208);
  std::int8_t codes[kSuper];
  for (int half = 0; half < 2; ++half) {
    std::int8_t* to = codes + half * 128;
    halves<64>(in + half * 64, to);
    const std::uint8_t* high = in + 128 + half * 32;
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 32; ++i) {
        const int two = high[i] >> (part * 2) & 3;
        to[part * 32 + i] = static_cast<std::int8_t>((to[part * 32 + i] | two << 4) - 32);
      }
    }
  }
  for (int group = 0; group < 16; ++group) {
    const float step = d * static_cast<float>(static_cast<std::int8_t>(in[192 + group]));
    times<16>(codes + group * 16, step, out + group * 16);
  }
}

}  // namespace

void convert_blocks(DType dtype, const std::byte* in, std::int64_t num_blocks, float* out) {
  const auto each = [&](int block_bytes, int block_elements, auto convert) {
    for (std::int64_t i = 0; i < num_blocks; ++i) {
      convert(bytes_of(in) + i * block_bytes, out + i * block_elements);
    }
  };
  switch (dtype) {
    case DType::q4_0:
      return each(18, kSmall, q4_0);
    case DType::q4_1:
      return each(20, kSmall, q4_1);
    case DType::q8_0:
      return each(34, kSmall, q8_0);
    case DType::q4_k:
      return each(144, kSuper, q4_k);
    case DType::q6_k:
      return each(210, kSuper, q6_k);
    default:
      throw Error(ErrorCode::internal, "no blocks of " + std::string(to_string(dtype)));
  }
}

}  // namespace tessera::weights
