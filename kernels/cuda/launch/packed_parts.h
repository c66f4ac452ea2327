#pragma once

#include "../device/layout.h"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::cuda {

/// Where the parts of packed weights begin, in bytes; each at a multiple of 256.
struct PackedParts {
  std::int64_t scales, zero_points, total_bytes;
};

inline PackedParts packed_parts(std::int64_t rows, std::int64_t columns, QuantFormat format) {
  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  const std::int64_t row_tiles = num_tiles(rows, kTileRows),
                     column_tiles = num_tiles(columns, kTileColumns);
  const std::int64_t scales = row_tiles * kTileRows * num_groups(columns, format.group_size);
  PackedParts parts;
  parts.scales = aligned(row_tiles * column_tiles * tile_words(format.bitwidth) * 4);
  parts.zero_points = parts.scales + aligned(scales * size_of(format.scale_type));
  parts.total_bytes = parts.zero_points + (format.symmetric ? 0 : aligned(scales));
  return parts;
}

}  // namespace tessera::kernels::cuda
