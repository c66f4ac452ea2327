// Blocks of ggml. Source: ggml-quants.c (dequantize_row_*) and ggml-common.h of llama.cpp.
#include <algorithm>
#include <cstring>
#include <string>

#include "convert.h"
#include "tessera/core/error.h"
#include "tessera/kernels/moments.h"

namespace tessera::weights {
namespace {

constexpr int kSmall = 32;       // elements of a plain block
constexpr int kSuper = 256;      // elements of a "K" block
constexpr int kBatch = 2048;     // elements decoded at a time: all of it stays in L1
constexpr int kLeastPiece = 16;  // elements that share a step

/// What blocks say of their elements: i is codes[i] * step[i / piece] + low[i / piece]. Codes first
/// become whole bytes, then floats: compilers make vector code of both loops, but not of one that
/// does both.
struct Decoded {
  alignas(64) std::int8_t codes[kBatch];
  float step[kBatch / kLeastPiece], low[kBatch / kLeastPiece];
};

struct Format {
  int bytes, elements;  ///< of a block
  int piece;            ///< elements that share a step
  bool has_low;
  void (*decode)(const std::uint8_t* in, int num_blocks, Decoded& out);
};

float half_at(const std::uint8_t* in) {
  std::uint16_t bits;
  std::memcpy(&bits, in, sizeof bits);
  return f32_of_f16(bits);
}

// The number at the same place of every block.
void halves_at(const std::uint8_t* in, int stride, int num_blocks, float* out) {
  std::uint16_t bits[kBatch / kSmall];
  for (int i = 0; i < num_blocks; ++i) std::memcpy(bits + i, in + i * stride, sizeof *bits);
  for (int i = 0; i < num_blocks; ++i) out[i] = f32_of_f16(bits[i]);
}

// Low nibbles of the bytes are the first `count` codes, high nibbles the next.
template <int count>
void nibbles(const std::uint8_t* bytes, std::int8_t* codes) {
  for (int i = 0; i < count; ++i) codes[i] = static_cast<std::int8_t>(bytes[i] & 0xf);
  for (int i = 0; i < count; ++i) codes[count + i] = static_cast<std::int8_t>(bytes[i] >> 4);
}

// { f16 d; u8 codes[16] }
void q4_0(const std::uint8_t* in, int num_blocks, Decoded& out) {
  halves_at(in, 18, num_blocks, out.step);
  for (int b = 0; b < num_blocks; ++b) nibbles<16>(in + b * 18 + 2, out.codes + b * kSmall);
  for (int i = 0; i < num_blocks * kSmall; ++i) {
    out.codes[i] = static_cast<std::int8_t>(out.codes[i] - 8);
  }
}

// { f16 d, m; u8 codes[16] }
void q4_1(const std::uint8_t* in, int num_blocks, Decoded& out) {
  halves_at(in, 20, num_blocks, out.step);
  halves_at(in + 2, 20, num_blocks, out.low);
  for (int b = 0; b < num_blocks; ++b) nibbles<16>(in + b * 20 + 4, out.codes + b * kSmall);
}

// { f16 d; i8 codes[32] }
void q8_0(const std::uint8_t* in, int num_blocks, Decoded& out) {
  halves_at(in, 34, num_blocks, out.step);
  for (int b = 0; b < num_blocks; ++b) std::memcpy(out.codes + b * kSmall, in + b * 34 + 2, kSmall);
}

// { f16 d, dmin; u8 scales[12]; u8 codes[128] }: eight groups of 32, each with a scale and a
// minimum of 6 bits, packed so that the first four are whole bytes' low bits.
void q4_k(const std::uint8_t* in, int num_blocks, Decoded& out) {
  for (int b = 0; b < num_blocks; ++b, in += 144) {
    const float d = half_at(in), dmin = half_at(in + 2);
    const std::uint8_t* scales = in + 4;
    for (int pair = 0; pair < 4; ++pair) {
      nibbles<32>(in + 16 + pair * 32, out.codes + b * kSuper + pair * 64);
    }
    for (int group = 0; group < 8; ++group) {
      int scale = scales[group] & 63, minimum = scales[group + 4] & 63;
      if (group >= 4) {
        scale = (scales[group + 4] & 0xf) | (scales[group - 4] >> 6 << 4);
        minimum = (scales[group + 4] >> 4) | (scales[group] >> 6 << 4);
      }
      out.step[b * 8 + group] = d * static_cast<float>(scale);
      out.low[b * 8 + group] = -(dmin * static_cast<float>(minimum));
    }
  }
}

// { u8 low[128]; u8 high[64]; i8 scales[16]; f16 d }: 6-bit codes in four bits and two, sixteen
// groups of 16, in two halves of 128.
void q6_k(const std::uint8_t* in, int num_blocks, Decoded& out) {
  for (int b = 0; b < num_blocks; ++b, in += 210) {
    for (int half = 0; half < 2; ++half) {
      std::int8_t* to = out.codes + b * kSuper + half * 128;
      nibbles<64>(in + half * 64, to);
      const std::uint8_t* high = in + 128 + half * 32;
      for (int part = 0; part < 4; ++part) {
        for (int i = 0; i < 32; ++i) {
          const int two = high[i] >> (part * 2) & 3;
          to[part * 32 + i] = static_cast<std::int8_t>((to[part * 32 + i] | two << 4) - 32);
        }
      }
    }
    const float d = half_at(in + 208);
    for (int group = 0; group < 16; ++group) {
      out.step[b * 16 + group] = d * static_cast<float>(static_cast<std::int8_t>(in[192 + group]));
    }
  }
}

const Format& format_of(DType dtype) {
  static constexpr Format kQ4_0{18, kSmall, 32, false, q4_0}, kQ4_1{20, kSmall, 32, true, q4_1},
      kQ8_0{34, kSmall, 32, false, q8_0}, kQ4_k{144, kSuper, 32, true, q4_k},
      kQ6_k{210, kSuper, 16, false, q6_k};
  switch (dtype) {
    case DType::q4_0:
      return kQ4_0;
    case DType::q4_1:
      return kQ4_1;
    case DType::q8_0:
      return kQ8_0;
    case DType::q4_k:
      return kQ4_k;
    case DType::q6_k:
      return kQ6_k;
    default:
      throw Error(ErrorCode::internal, "no blocks of " + std::string(to_string(dtype)));
  }
}

// Calls use(decoded, number of its pieces) for one batch after the other.
template <class Use>
void decode(const Format& format, const std::byte* in, std::int64_t num_blocks, const Use& use) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in);
  Decoded decoded;
  while (num_blocks > 0) {
    const auto blocks =
        static_cast<int>(std::min<std::int64_t>(num_blocks, kBatch / format.elements));
    format.decode(bytes, blocks, decoded);
    use(decoded, blocks * format.elements / format.piece);
    bytes += blocks * format.bytes;
    num_blocks -= blocks;
  }
}

template <int piece>
void numbers(const Decoded& decoded, int num_pieces, bool has_low, float* out) {
  for (int p = 0; p < num_pieces; ++p) {
    const std::int8_t* codes = decoded.codes + p * piece;
    const float step = decoded.step[p], low = decoded.low[p];
    if (has_low) {
      for (int i = 0; i < piece; ++i) out[i] = static_cast<float>(codes[i]) * step + low;
    } else {
      for (int i = 0; i < piece; ++i) out[i] = static_cast<float>(codes[i]) * step;
    }
    out += piece;
  }
}

}  // namespace

void convert_blocks(DType dtype, const std::byte* in, std::int64_t num_blocks, float* out) {
  const Format& format = format_of(dtype);
  decode(format, in, num_blocks, [&](const Decoded& decoded, int num_pieces) {
    const auto write = format.piece == 16 ? numbers<16> : numbers<32>;
    write(decoded, num_pieces, format.has_low, out);
    out += num_pieces * format.piece;
  });
}

int piece_elements(DType dtype) { return format_of(dtype).piece; }

// A number grows or falls with its code, so the ends of a piece are those of its codes.
void piece_ranges(DType dtype, const std::byte* in, std::int64_t num_blocks, float* min,
                  float* max) {
  const Format& format = format_of(dtype);
  std::int8_t least[kBatch / kLeastPiece], most[kBatch / kLeastPiece];
  decode(format, in, num_blocks, [&](const Decoded& decoded, int num_pieces) {
    kernels::code_ranges(decoded.codes, num_pieces, format.piece, least, most);
    for (int p = 0; p < num_pieces; ++p) {
      const float step = decoded.step[p], low = format.has_low ? decoded.low[p] : 0;
      const float a = static_cast<float>(least[p]) * step + low;
      const float b = static_cast<float>(most[p]) * step + low;
      min[p] = a < b ? a : b;
      max[p] = a < b ? b : a;
    }
    min += num_pieces;
    max += num_pieces;
  });
}

}  // namespace tessera::weights
