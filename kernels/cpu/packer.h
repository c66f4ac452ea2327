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
    std::uint32_t* words = words_ + layout.word(block, group, 0) + lane;
    const std::int64_t columns = layout.unit_columns, next = layout.unit_words * kRowsPerBlock;
    std::int64_t c = 0;
    for (; from.count - c >= columns; c += columns, words += next) put_unit(words, from.codes + c);
    const std::uint32_t mask = (1u << format.bitwidth) - 1;
    for (std::int64_t i = 0; c < from.count; ++c, ++i) put_code(words, i, from.codes[c] & mask);
  }

  const CodeFormat format;
  const PackedLayout layout;

 private:
  /// All codes of a unit at once: loading a model is mostly this.
  void put_unit(std::uint32_t* words, const std::uint8_t* codes) const {
    if (format.bitwidth == 8) {
      std::memcpy(words, codes, 4);
    } else if (format.bitwidth == 4) {
      std::uint64_t eight;
      std::memcpy(&eight, codes, 8);  // bytes come together in pairs, then pairs of these
      eight &= 0x0f0f0f0f0f0f0f0fu;
      eight = (eight | eight >> 4) & 0x00ff00ff00ff00ffu;
      eight = (eight | eight >> 8) & 0x0000ffff0000ffffu;
      words[0] = static_cast<std::uint32_t>(eight | eight >> 16);
    } else {
      for (int word = 0; word < 3; ++word) {
        std::uint32_t bits = (codes[30] >> word & 1u) << 30 | (codes[31] >> word & 1u) << 31;
        for (int i = 0; i < 10; ++i) bits |= (codes[word * 10 + i] & 7u) << (3 * i);
        words[word * kRowsPerBlock] = bits;
      }
    }
  }

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
