#include "tessera/kernels/pack.h"

#include <cstring>

#include "check.h"

namespace tessera::kernels {
namespace {

bool valid(const void* from, Rows rows, std::int64_t columns, int bitwidth, const void* to) {
  return from != nullptr && to != nullptr && cpu::valid_bitwidth(bitwidth) &&
         cpu::valid_shape(rows.last, columns) && cpu::valid(rows, rows.last);
}

// Eight codes are `Bits` whole bytes: they pass through one register.
template <int Bits>
void pack_row(const std::uint8_t* codes, std::int64_t columns, std::uint8_t* packed) {
  constexpr std::uint64_t kMask = (1u << Bits) - 1;
  std::int64_t c = 0;
  for (; c < columns; c += 8) {
    const std::int64_t count = columns - c < 8 ? columns - c : 8;
    std::uint64_t bits = 0;
    for (std::int64_t i = 0; i < count; ++i) bits |= (codes[c + i] & kMask) << (Bits * i);
    const std::int64_t bytes = (count * Bits + 7) / 8;
    for (std::int64_t i = 0; i < bytes; ++i) *packed++ = static_cast<std::uint8_t>(bits >> (8 * i));
  }
}

template <int Bits>
void unpack_row(const std::uint8_t* packed, std::int64_t columns, std::uint8_t* codes) {
  constexpr std::uint64_t kMask = (1u << Bits) - 1;
  for (std::int64_t c = 0; c < columns; c += 8) {
    const std::int64_t count = columns - c < 8 ? columns - c : 8;
    std::uint64_t bits = 0;
    const std::int64_t bytes = (count * Bits + 7) / 8;
    for (std::int64_t i = 0; i < bytes; ++i) bits |= std::uint64_t{*packed++} << (8 * i);
    for (std::int64_t i = 0; i < count; ++i) {
      codes[c + i] = static_cast<std::uint8_t>((bits >> (Bits * i)) & kMask);
    }
  }
}

}  // namespace

Status pack(const std::uint8_t* codes, Rows rows, std::int64_t columns, int bitwidth,
            std::uint8_t* packed) {
  if (!valid(codes, rows, columns, bitwidth, packed)) return Status::invalid_argument;
  const std::int64_t row_bytes = packed_row_bytes(columns, bitwidth);
  const auto used = static_cast<std::size_t>((columns * bitwidth + 7) / 8);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::uint8_t* from = codes + row * columns;
    std::uint8_t* to = packed + row * row_bytes;
    if (bitwidth == 3) pack_row<3>(from, columns, to);
    if (bitwidth == 4) pack_row<4>(from, columns, to);
    if (bitwidth == 8) std::memcpy(to, from, used);
    std::memset(to + used, 0, static_cast<std::size_t>(row_bytes) - used);
  }
  return Status::ok;
}

Status unpack(const std::uint8_t* packed, Rows rows, std::int64_t columns, int bitwidth,
              std::uint8_t* codes) {
  if (!valid(packed, rows, columns, bitwidth, codes)) return Status::invalid_argument;
  const std::int64_t row_bytes = packed_row_bytes(columns, bitwidth);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    const std::uint8_t* from = packed + row * row_bytes;
    std::uint8_t* to = codes + row * columns;
    if (bitwidth == 3) unpack_row<3>(from, columns, to);
    if (bitwidth == 4) unpack_row<4>(from, columns, to);
    if (bitwidth == 8) std::memcpy(to, from, static_cast<std::size_t>(columns));
  }
  return Status::ok;
}

}  // namespace tessera::kernels
