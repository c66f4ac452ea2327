#pragma once

#include <cstdint>

#include "packed.h"
#include "tessera/kernels/ggml_weights.h"

// Blocks of GGUF files. Source: ggml-common.h and dequantize_row_* in ggml-quants.c of llama.cpp.
namespace tessera::kernels::cpu {

inline constexpr int kGgmlColumns = 256;  ///< of the largest block

/// A number of a block is scale * (code - zero) + minimum of its group; zero is the format's.
struct GgmlBlock {
  std::uint8_t codes[kGgmlColumns];
  float scale[kGgmlColumns / 16], minimum[kGgmlColumns / 16];
};

struct GgmlFormat {
  int block_bytes, block_columns;
  CodeFormat codes;
  void (*decode)(const std::uint8_t* block, GgmlBlock* out);
  /// Many, with the zero taken off their codes.
  void (*decode_blocks)(const std::uint8_t* blocks, std::int64_t num_blocks,
                        const CodeFormat& format, std::int8_t* codes, float* scale, float* minimum);
};

/// Zeros of codes that are signed numbers: of eight bits, below 64 and below 16. The nearer to what
/// is kept, the less a product loses where the zero is taken off sums.
inline constexpr int kZeroOf8Bits = 128, kZeroBelow64 = 64, kZeroBelow16 = 16;

// Types whose codes are places in a grid (ggml_grids.h).
void iq1_s(const std::uint8_t* block, GgmlBlock* out);
void iq1_m(const std::uint8_t* block, GgmlBlock* out);
void iq2_xxs(const std::uint8_t* block, GgmlBlock* out);
void iq2_xs(const std::uint8_t* block, GgmlBlock* out);
void iq2_s(const std::uint8_t* block, GgmlBlock* out);
void iq3_xxs(const std::uint8_t* block, GgmlBlock* out);
void iq3_s(const std::uint8_t* block, GgmlBlock* out);

/// Null for what is no type.
const GgmlFormat* ggml_format(GgmlType type);

}  // namespace tessera::kernels::cpu
