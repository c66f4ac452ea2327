#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/weights/dtype.h"

// From the bytes of a file, which need not be aligned, to f32.
namespace tessera::weights {

float f32_of_f16(std::uint16_t bits);

/// Types of one element per block; `in` has `count` of them.
void convert_elements(DType dtype, const std::byte* in, std::int64_t count, float* out);

/// Types in blocks; `out` has room for all elements of `num_blocks` blocks.
void convert_blocks(DType dtype, const std::byte* in, std::int64_t num_blocks, float* out);

}  // namespace tessera::weights
