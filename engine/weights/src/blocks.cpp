// Numbers of blocks of ggml, whose codes the kernels read (tessera/kernels/ggml_weights.h).
#include <algorithm>
#include <string>
#include <utility>

#include "convert.h"
#include "tessera/core/error.h"
#include "tessera/kernels/ggml_weights.h"
#include "tessera/kernels/moments.h"

namespace tessera::weights {
namespace {

using kernels::GgmlType;

constexpr int kBatch = 2048;     // elements decoded at a time: all of it stays in L1
constexpr int kLeastPiece = 16;  // elements that share a step

/// What blocks say of their elements: i is codes[i] * step[i / piece] + low[i / piece]. Codes first
/// become whole bytes, then floats: compilers make vector code of both loops, but not of one that
/// does both.
struct Decoded {
  alignas(64) std::int8_t codes[kBatch];
  float step[kBatch / kLeastPiece], low[kBatch / kLeastPiece];
};

GgmlType type_of(DType dtype) {
  if (const auto type = ggml_type_of(dtype)) return *type;
  throw Error(ErrorCode::internal, "no blocks of " + std::string(to_string(dtype)));
}

// Calls use(decoded, number of its pieces) for one batch after the other.
template <class Use>
void decode(GgmlType type, const std::byte* in, std::int64_t num_blocks, const Use& use) {
  const std::int64_t elements = kernels::ggml_block_columns(type);
  const auto pieces = elements / kernels::ggml_group_columns(type);
  Decoded decoded;
  while (num_blocks > 0) {
    const std::int64_t blocks = std::min(num_blocks, kBatch / elements);
    if (kernels::decode_ggml_blocks(type, in, blocks, decoded.codes, decoded.step, decoded.low) !=
        kernels::Status::ok) {
      throw Error(ErrorCode::internal, "blocks that the kernels do not read");
    }
    use(decoded, static_cast<int>(blocks * pieces));
    in += blocks * kernels::ggml_block_bytes(type);
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

std::optional<GgmlType> ggml_type_of(DType dtype) {
  constexpr std::pair<DType, GgmlType> kTypes[] = {
      {DType::q4_0, GgmlType::q4_0},       {DType::q4_1, GgmlType::q4_1},
      {DType::q5_0, GgmlType::q5_0},       {DType::q5_1, GgmlType::q5_1},
      {DType::q8_0, GgmlType::q8_0},       {DType::q2_k, GgmlType::q2_k},
      {DType::q3_k, GgmlType::q3_k},       {DType::q4_k, GgmlType::q4_k},
      {DType::q5_k, GgmlType::q5_k},       {DType::q6_k, GgmlType::q6_k},
      {DType::q8_k, GgmlType::q8_k},       {DType::iq1_s, GgmlType::iq1_s},
      {DType::iq1_m, GgmlType::iq1_m},     {DType::iq2_xxs, GgmlType::iq2_xxs},
      {DType::iq2_xs, GgmlType::iq2_xs},   {DType::iq2_s, GgmlType::iq2_s},
      {DType::iq3_xxs, GgmlType::iq3_xxs}, {DType::iq3_s, GgmlType::iq3_s},
      {DType::iq4_nl, GgmlType::iq4_nl},   {DType::iq4_xs, GgmlType::iq4_xs},
      {DType::tq1_0, GgmlType::tq1_0},     {DType::tq2_0, GgmlType::tq2_0},
      {DType::mxfp4, GgmlType::mxfp4},     {DType::nvfp4, GgmlType::nvfp4},
      {DType::q1_0, GgmlType::q1_0},       {DType::q2_0, GgmlType::q2_0},
  };
  for (const auto& [here, there] : kTypes) {
    if (here == dtype) return there;
  }
  return std::nullopt;
}

void convert_blocks(DType dtype, const std::byte* in, std::int64_t num_blocks, float* out) {
  const GgmlType type = type_of(dtype);
  const bool has_low = kernels::ggml_has_minima(type);
  const auto piece = kernels::ggml_group_columns(type);
  decode(type, in, num_blocks, [&](const Decoded& decoded, int num_pieces) {
    const auto write = piece == 16 ? numbers<16> : numbers<32>;
    write(decoded, num_pieces, has_low, out);
    out += num_pieces * piece;
  });
}

int piece_elements(DType dtype) {
  return static_cast<int>(kernels::ggml_group_columns(type_of(dtype)));
}

// A number grows or falls with its code, so the ends of a piece are those of its codes.
void piece_ranges(DType dtype, const std::byte* in, std::int64_t num_blocks, float* min,
                  float* max) {
  const GgmlType type = type_of(dtype);
  const bool has_low = kernels::ggml_has_minima(type);
  const int piece = piece_elements(dtype);
  std::int8_t least[kBatch / kLeastPiece], most[kBatch / kLeastPiece];
  decode(type, in, num_blocks, [&](const Decoded& decoded, int num_pieces) {
    kernels::code_ranges(decoded.codes, num_pieces, piece, least, most);
    for (int p = 0; p < num_pieces; ++p) {
      const float step = decoded.step[p], low = has_low ? decoded.low[p] : 0;
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
