#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Dense packing of codes. Code c of a row takes the bits [c * bitwidth, (c + 1) * bitwidth) of the
/// row, counted from the lowest bit of its first byte (little-endian); a code of 3 bits may lie
/// across two bytes. Rows are padded with zero bits to whole 32-bit words.
///
///     bitwidth 3   byte 0     byte 1     byte 2
///                  22111000   54443332   77766655      (digit: which code the bit belongs to)

/// Bytes of one packed row: a multiple of 4.
TESSERA_KERNELS_INLINE constexpr std::int64_t packed_row_bytes(std::int64_t columns, int bitwidth) {
  return (columns * bitwidth + 31) / 32 * 4;
}

/// [rows][columns] codes to [rows][packed_row_bytes]; bitwidth is 3, 4 or 8. Bits of a code above
/// its bitwidth are dropped.
Status pack(const std::uint8_t* codes, Rows rows, std::int64_t columns, int bitwidth,
            std::uint8_t* packed);

/// The way back.
Status unpack(const std::uint8_t* packed, Rows rows, std::int64_t columns, int bitwidth,
              std::uint8_t* codes);

}  // namespace tessera::kernels
