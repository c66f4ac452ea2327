#pragma once

#include <cstring>

#include "packed.h"
#include "versions.h"

// Puts codes and their scales where the kernels look for them.
namespace tessera::kernels::cpu {

inline void put_real(void* to, Real type, std::int64_t i, float value) {
  char* at = static_cast<char*>(to) + i * size_of(type);
  if (type == Real::f32) {
    std::memcpy(at, &value, 4);
  } else {
    const std::uint16_t bits = type == Real::f16 ? f32_to_f16(value) : f32_to_bf16(value);
    std::memcpy(at, &bits, 2);
  }
}

/// Codes of one row in one group.
struct CodedGroup {
  const std::uint8_t* codes;
  std::int64_t count;
  float scale, minimum;     ///< minimum: Offset::minima only
  std::uint8_t zero_point;  ///< Offset::zero_points only
};

class Packer {
 public:
  Packer(std::int64_t rows, std::int64_t columns, CodeFormat code_format, void* data)
      : format(code_format), layout(layout_of(rows, columns, format)) {
    words_ = static_cast<std::uint32_t*>(data);
    scales_ = static_cast<char*>(data) + layout.words_bytes;
    offsets_ = scales_ + layout.scales_bytes;
  }

  /// Zeros everywhere in a block of rows.
  void clear(std::int64_t block) {
    const auto words = static_cast<std::size_t>(layout.word(1, 0, 0));
    std::memset(words_ + layout.word(block, 0, 0), 0, words * sizeof(std::uint32_t));
    const std::int64_t numbers = layout.groups * kRowsPerBlock;
    const auto fill = [&](char* part, std::int64_t size) {
      std::memset(part + block * numbers * size, 0, static_cast<std::size_t>(numbers * size));
    };
    fill(scales_, size_of(format.scale_type));
    if (format.offset == Offset::zero_points) fill(offsets_, 1);
    if (format.offset == Offset::minima) fill(offsets_, size_of(format.scale_type));
  }

  /// Into a cleared block.
  void put(std::int64_t row, std::int64_t group, const CodedGroup& from) {
    const std::int64_t block = row / kRowsPerBlock, lane = row % kRowsPerBlock;
    const std::int64_t at = (block * layout.groups + group) * kRowsPerBlock + lane;
    put_real(scales_, format.scale_type, at, from.scale);
    if (format.offset == Offset::minima) put_real(offsets_, format.scale_type, at, from.minimum);
    if (format.offset == Offset::zero_points) {
      reinterpret_cast<std::uint8_t*>(offsets_)[at] = from.zero_point;
    }
    const std::uint32_t mask = (1u << format.bitwidth) - 1;
    std::uint32_t* words = words_ + layout.word(block, group, 0) + lane;
    for (std::int64_t c = 0; c < from.count; ++c) {
      const std::int64_t unit = c / layout.unit_columns * layout.unit_words * kRowsPerBlock;
      put_code(words + unit, c % layout.unit_columns, from.codes[c] & mask);
    }
  }

  const CodeFormat format;
  const PackedLayout layout;

 private:
  /// Sets the bits of `code` in the words of one row (kRowsPerBlock words apart).
  void put_code(std::uint32_t* words, std::int64_t column, std::uint32_t code) const {
    if (format.bitwidth != 3) {
      words[0] |= code << (column * format.bitwidth);
    } else if (column < 30) {
      words[column / 10 * kRowsPerBlock] |= code << (column % 10 * 3);
    } else {
      for (int bit = 0; bit < 3; ++bit) words[bit * kRowsPerBlock] |= (code >> bit & 1u) << column;
    }
  }

  std::uint32_t* words_;
  char* scales_;
  char* offsets_;
};

}  // namespace tessera::kernels::cpu
