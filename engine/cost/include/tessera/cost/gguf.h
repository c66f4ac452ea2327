#pragma once

#include <cstdint>

namespace tessera::cost {

/// Bits that a weight of a decoder layer takes in a GGUF file of the type that people run at this
/// bitwidth, scales and the matrices of a wider type included: Q3_K_M 3.85, Q4_K_M 4.8, Q8_0 8.5.
/// The K types are read off files of Llama-3 (8B: 4.02 and 4.92 GB, 70B: 34.3 and 42.5 GB) less
/// embedding and head, and differ by 0.02 between models.
constexpr double gguf_bits(std::int32_t bitwidth) {
  switch (bitwidth) {
    case 3:
      return 3.85;
    case 4:
      return 4.8;
    case 8:
      return 8.5;
    default:
      return bitwidth;
  }
}

/// Of the LM head beside layers of `bitwidth` (llama.cpp, llama_tensor_get_type): Q6_K below 8
/// bits, else the layers' own type.
constexpr double gguf_head_bits(std::int32_t bitwidth) {
  return bitwidth < 8 ? 6.5625 : gguf_bits(bitwidth);
}

/// Of the experts of a model that is published in MXFP4; its other matrices are Q8_0 in files.
inline constexpr double kGgufMxfp4Bits = 4.25;

}  // namespace tessera::cost
