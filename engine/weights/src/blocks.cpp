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

// { f16 d; u8 codes[16] }: low halves of the bytes are the first 16 elements, high halves the rest.
void q4_0(const std::uint8_t* in, float* out) {
  const float d = half_at(in);
  for (int i = 0; i < kSmall / 2; ++i) {
    out[i] = static_cast<float>((in[2 + i] & 0xf) - 8) * d;
    out[i + kSmall / 2] = static_cast<float>((in[2 + i] >> 4) - 8) * d;
  }
}

// { f16 d, m; u8 codes[16] }
void q4_1(const std::uint8_t* in, float* out) {
  const float d = half_at(in), m = half_at(in + 2);
  for (int i = 0; i < kSmall / 2; ++i) {
    out[i] = static_cast<float>(in[4 + i] & 0xf) * d + m;
    out[i + kSmall / 2] = static_cast<float>(in[4 + i] >> 4) * d + m;
  }
}

// { f16 d; i8 codes[32] }
void q8_0(const std::uint8_t* in, float* out) {
  const float d = half_at(in);
  for (int i = 0; i < kSmall; ++i) {
    out[i] = static_cast<float>(static_cast<std::int8_t>(in[2 + i])) * d;
  }
}

// { f16 d, dmin; u8 scales[12]; u8 codes[128] }: eight groups of 32, each with a scale and a
// minimum of 6 bits, packed so that the first four are whole bytes' low bits.
void q4_k(const std::uint8_t* in, float* out) {
  const float d = half_at(in), dmin = half_at(in + 2);
  const std::uint8_t* scales = in + 4;
  const std::uint8_t* codes = in + 16;
  for (int group = 0; group < 8; ++group) {
    int scale = scales[group] & 63, minimum = scales[group + 4] & 63;
    if (group >= 4) {
      scale = (scales[group + 4] & 0xf) | (scales[group - 4] >> 6 << 4);
      minimum = (scales[group + 4] >> 4) | (scales[group] >> 6 << 4);
    }
    const float step = d * static_cast<float>(scale);
    const float low = dmin * static_cast<float>(minimum);
    const int shift = group % 2 * 4;
    for (int i = 0; i < 32; ++i) {
      const int code = codes[group / 2 * 32 + i] >> shift & 0xf;
      out[group * 32 + i] = step * static_cast<float>(code) - low;
    }
  }
}

// { u8 low[128]; u8 high[64]; i8 scales[16]; f16 d }: 6-bit codes in four bits and two, sixteen
// groups of 16, in two halves of 128.
void q6_k(const std::uint8_t* in, float* out) {
  const float d = half_at(in + 208);
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* low = in + half * 64;
    const std::uint8_t* high = in + 128 + half * 32;
    const std::uint8_t* scales = in + 192 + half * 8;
    for (int part = 0; part < 4; ++part) {
      for (int i = 0; i < 32; ++i) {
        const int four = low[part % 2 * 32 + i] >> (part / 2 * 4) & 0xf;
        const int two = high[i] >> (part * 2) & 3;
        const auto scale = static_cast<std::int8_t>(scales[part * 2 + i / 16]);
        out[half * 128 + part * 32 + i] =
            d * static_cast<float>(scale) * static_cast<float>((four | two << 4) - 32);
      }
    }
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
