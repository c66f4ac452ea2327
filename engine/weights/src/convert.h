#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "tessera/weights/dtype.h"

// From the bytes of a file, which need not be aligned, to f32.
namespace tessera::weights {

/// Without branches, so that the compiler turns a loop of it into vector code: shifted into place a
/// half is a float whose exponent is 112 too small, which one product puts right, denormals too.
inline float f32_of_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const std::uint32_t special = (bits & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

/// Types of one element per block; `in` has `count` of them.
void convert_elements(DType dtype, const std::byte* in, std::int64_t count, float* out);

/// Types in blocks; `out` has room for all elements of `num_blocks` blocks.
void convert_blocks(DType dtype, const std::byte* in, std::int64_t num_blocks, float* out);

/// Elements that share a step in a type in blocks: 16 or 32.
int piece_elements(DType dtype);

/// Smallest and largest of every piece, without converting the others: the numbers that
/// convert_blocks gives. Where one of a piece is not finite, at least one of its two ends is not.
void piece_ranges(DType dtype, const std::byte* in, std::int64_t num_blocks, float* min,
                  float* max);

}  // namespace tessera::weights
