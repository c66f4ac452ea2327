#pragma once

#include "real.cuh"
#include "tessera/kernels/quantise.h"

namespace tessera::kernels::cuda {

inline constexpr int kElementThreads = 256;

/// Four consecutive codes a thread: they share a block of random words, and a store.
///
/// grid [elements / 4 / kElementThreads], block [kElementThreads]; codes [rows][columns].
TESSERA_GLOBAL void quantise_kernel(const Segments groups, QuantFormat format, const float* scale,
                                    const std::uint8_t* zero_point, Rounding rounding,
                                    std::uint64_t seed, std::uint8_t* codes) {
  const std::int64_t quad = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  const std::int64_t first = quad * 4, count = groups.rows * groups.columns;
  if (first >= count) return;
  RandomBlock random{};
  if (rounding == Rounding::stochastic)
    random = random_block(seed, static_cast<std::uint64_t>(quad));
  std::int64_t row = first / groups.columns, column = first % groups.columns;
  for (int i = 0; i < 4 && first + i < count; ++i) {
    const std::int64_t group = row * groups.per_row + column / groups.size;
    const int zero =
        zero_point == nullptr ? symmetric_zero_point(format.bitwidth) : zero_point[group];
    const float value = load_real(groups.data, groups.type, row * groups.stride + column);
    codes[first + i] =
        code_of(value, scale[group], zero, format, rounding, uniform_of(random.word[i]));
    if (++column == groups.columns) {
      column = 0;
      ++row;
    }
  }
}

/// grid [elements / kElementThreads], block [kElementThreads].
TESSERA_GLOBAL void dequantise_kernel(const std::uint8_t* codes, const Segments groups,
                                      int bitwidth, const float* scale,
                                      const std::uint8_t* zero_point, float* out) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= groups.rows * groups.columns) return;
  const std::int64_t group = i / groups.columns * groups.per_row + i % groups.columns / groups.size;
  const int zero = zero_point == nullptr ? symmetric_zero_point(bitwidth) : zero_point[group];
  out[i] = scale[group] * static_cast<float>(codes[i] - zero);
}

/// One 32-bit word of a packed row a thread.
///
/// grid [words / kElementThreads], block [kElementThreads]; packed [rows][row_words].
TESSERA_GLOBAL void pack_kernel(const std::uint8_t* codes, std::int64_t rows, std::int64_t columns,
                                int bitwidth, std::int64_t row_words, std::uint8_t* packed) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (at >= rows * row_words) return;
  const std::int64_t first_bit = at % row_words * 32;
  const std::uint8_t* row = codes + at / row_words * columns;
  std::uint64_t bits =
      0;  // of the codes from `code` on, the first of which may begin before the word
  std::int64_t code = first_bit / bitwidth;
  const int early = static_cast<int>(first_bit - code * bitwidth);
  for (int to = 0; to < 32 + early && code < columns; to += bitwidth, ++code)
    bits |= static_cast<std::uint64_t>(row[code] & ((1u << bitwidth) - 1)) << to;
  const auto word = static_cast<std::uint32_t>(bits >> early);
  for (int i = 0; i < 4; ++i) packed[at * 4 + i] = static_cast<std::uint8_t>(word >> (8 * i));
}

/// grid [rows * columns / kElementThreads], block [kElementThreads].
TESSERA_GLOBAL void unpack_kernel(const std::uint8_t* packed, std::int64_t rows,
                                  std::int64_t columns, int bitwidth, std::int64_t row_words,
                                  std::uint8_t* codes) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  if (i >= rows * columns) return;
  const std::int64_t bit = i % columns * bitwidth;
  const std::uint8_t* from = packed + i / columns * row_words * 4 + bit / 8;
  const int shift = static_cast<int>(bit % 8);
  std::uint32_t bits = from[0];
  if (shift + bitwidth > 8) bits |= static_cast<std::uint32_t>(from[1]) << 8;
  codes[i] = static_cast<std::uint8_t>(bits >> shift & ((1u << bitwidth) - 1));
}

}  // namespace tessera::kernels::cuda
