#pragma once

#include <cstdint>

#include "tessera/kernels/gemm.h"

// Where things are in PackedWeights, and in what else has their order; the picture is in gemm.h.
namespace tessera::kernels::cpu {

/// What a code stands for.
enum class Offset {
  zero,         ///< scale * (code - zero), the same zero everywhere
  zero_points,  ///< scale * (code - zero point), bytes
  minima        ///< scale * code + minimum, of the type of the scales
};

struct CodeFormat {
  int bitwidth;
  std::int64_t group_size;  ///< 0: the whole row
  Real scale_type;
  Offset offset;
  int zero;  ///< where offset is Offset::zero
};

TESSERA_KERNELS_INLINE CodeFormat code_format(QuantFormat f) {
  return {f.bitwidth, f.group_size, f.scale_type, f.symmetric ? Offset::zero : Offset::zero_points,
          symmetric_zero_point(f.bitwidth)};
}

struct PackedLayout {
  std::int64_t unit_columns;     ///< columns of a unit: 8, 4 or 32
  std::int64_t unit_words;       ///< words of a row in a unit: 1, 1 or 3
  std::int64_t group_size;       ///< columns of a group, the whole row where that was 0
  std::int64_t groups;           ///< of a row
  std::int64_t units_per_group;  ///< of every group but perhaps the last
  std::int64_t units_per_row;
  std::int64_t blocks;
  std::int64_t words_bytes, scales_bytes, offsets_bytes;  ///< of each part, padded to 64

  std::int64_t bytes() const { return words_bytes + scales_bytes + offsets_bytes; }
  std::int64_t columns_of(std::int64_t group, std::int64_t columns) const {
    const std::int64_t left = columns - group * group_size;
    return left < group_size ? left : group_size;
  }
  /// The 16 rows' first words of a unit, counted in words from the start of the part.
  std::int64_t word(std::int64_t block, std::int64_t group, std::int64_t unit) const {
    return (block * units_per_row + group * units_per_group + unit) * unit_words * kRowsPerBlock;
  }
};

TESSERA_KERNELS_INLINE PackedLayout layout_of(std::int64_t rows, std::int64_t columns,
                                              CodeFormat format) {
  PackedLayout l{};
  l.unit_columns = format.bitwidth == 3 ? 32 : 32 / format.bitwidth;
  l.unit_words = format.bitwidth == 3 ? 3 : 1;
  l.group_size =
      format.group_size == 0 || format.group_size > columns ? columns : format.group_size;
  l.groups = num_groups(columns, l.group_size);
  l.units_per_group = (l.group_size + l.unit_columns - 1) / l.unit_columns;
  const std::int64_t last = columns - (l.groups - 1) * l.group_size;
  l.units_per_row =
      (l.groups - 1) * l.units_per_group + (last + l.unit_columns - 1) / l.unit_columns;
  l.blocks = (rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const std::int64_t scales = l.blocks * l.groups * kRowsPerBlock;
  const auto padded = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  l.words_bytes = l.blocks * l.units_per_row * l.unit_words * kRowsPerBlock * 4;
  l.scales_bytes = padded(scales * size_of(format.scale_type));
  if (format.offset == Offset::zero_points) l.offsets_bytes = padded(scales);
  if (format.offset == Offset::minima) l.offsets_bytes = l.scales_bytes;
  return l;
}

/// Packed weights of either kind, as the kernels take them.
struct CodedWeights {
  std::int64_t rows, columns;
  CodeFormat format;
  PackedLayout layout;
  const std::uint32_t* words;
  const char* scales;
  const char* offsets;  ///< zero points or minima
};

TESSERA_KERNELS_INLINE CodedWeights coded(std::int64_t rows, std::int64_t columns,
                                          CodeFormat format, const void* data) {
  const PackedLayout l = layout_of(rows, columns, format);
  const char* bytes = static_cast<const char*>(data);
  return {rows,
          columns,
          format,
          l,
          static_cast<const std::uint32_t*>(data),
          bytes + l.words_bytes,
          bytes + l.words_bytes + l.scales_bytes};
}

TESSERA_KERNELS_INLINE CodedWeights coded(const PackedWeights& w) {
  return coded(w.rows, w.columns, code_format(w.format), w.data);
}

/// The code of column `column` of a unit, from the words of one row (`stride` words apart).
TESSERA_KERNELS_INLINE std::uint32_t unit_code(const std::uint32_t* words, std::int64_t stride,
                                               std::int64_t column, int bitwidth) {
  if (bitwidth != 3) return words[0] >> (column * bitwidth) & ((1u << bitwidth) - 1);
  if (column < 30) return words[column / 10 * stride] >> (column % 10 * 3) & 7u;
  const int bit = static_cast<int>(column);  // 30 or 31
  return (words[0] >> bit & 1u) | (words[stride] >> bit & 1u) << 1 |
         (words[2 * stride] >> bit & 1u) << 2;
}

}  // namespace tessera::kernels::cpu
