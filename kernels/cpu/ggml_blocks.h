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
};

/// Null for what is no type.
const GgmlFormat* ggml_format(GgmlType type);

}  // namespace tessera::kernels::cpu
