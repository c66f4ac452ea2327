#pragma once

// Where each code of a weight matrix lies in the packed form that the matrix kernels read. Plain
// arithmetic, for the packing kernel, the unpacking in registers and the tests alike.
//
// The matrix [rows, columns] is cut into tiles of 16 rows and 64 columns (the last ones padded),
// ordered [row tile][column tile]. A warp reads a tile in one go and finds in its registers the
// operand `a` of four mma_f16: lane 4 g + t holds rows g and g + 8. A sum over k does not mind the
// order of k, so step j of the four takes from lane t the columns 32 (j / 2) + 8 t + 4 (j % 2) +
// {0, 1, 2, 3}, which makes a lane's activations 16 contiguous bytes for every two steps, and lets
// groups be any multiple of 32 columns.

#include <cstdint>

#ifdef __CUDACC__
#define TESSERA_BOTH __host__ __device__ __forceinline__
#else
#define TESSERA_BOTH inline
#endif

namespace tessera::kernels::cuda {

inline constexpr int kTileRows = 16;
inline constexpr int kTileColumns = 64;
inline constexpr int kLaneCodes = 32;     ///< codes of a tile that one lane holds
inline constexpr int kHalfColumns = 32;   ///< columns between two places where a scale may change
inline constexpr int kUnitColumns = 128;  ///< that a warp of the decode kernels takes at a time

/// 32-bit words of a tile that one lane holds: 3, 4 or 8.
TESSERA_BOTH constexpr int lane_words(int bitwidth) { return bitwidth; }
TESSERA_BOTH constexpr int tile_words(int bitwidth) { return 32 * lane_words(bitwidth); }

/// Position of one code among a lane's: mma step 0-3, register pair 0-3 (a[pair] of mma_f16), half
/// of the register.
struct Slot {
  int lane, step, pair, half;
};

TESSERA_BOTH constexpr Slot slot_of(int row, int column) {
  const int t = column % 32 / 8, within = column % 8;
  return {4 * (row % 8) + t, 2 * (column / 32) + within / 4, within % 4 / 2 * 2 + row / 8,
          within % 2};
}

struct Place {
  int row, column;
};

/// The inverse of slot_of.
TESSERA_BOTH constexpr Place place_of(Slot slot) {
  return {slot.lane / 4 + 8 * (slot.pair % 2), 32 * (slot.step / 2) + 8 * (slot.lane % 4) +
                                                   4 * (slot.step % 2) + 2 * (slot.pair / 2) +
                                                   slot.half};
}

/// Bit `index` of a code lies in word `word` of its lane, at `bit`.
struct BitPlace {
  int word, bit;
};

/// Word of a lane, and field in each half of it (bits 3 index or 4 index), that hold a register
/// pair of 3- or 4-bit codes. 4 bits: a word is a step, its fields are the pairs in order. 3 bits:
/// five fields of a word and half, which would be 15 of the 16 pairs; the last has its bits in what
/// is left, bit 15 of every half. The even fields belong to the upper rows g and the odd ones to
/// rows g + 8, so that a row's codes come out in the same bits after a shift by a multiple of 6:
///
///     half of a word   bit 15    14-12   11-9   8-6   5-3   2-0          step.pair
///       word 0        15 bit 0    3.0     0.3   0.2   0.1   0.0
///       word 1        15 bit 1    3.1     1.3   1.2   1.1   1.0          15 is 3.3
///       word 2        15 bit 2    3.2     2.3   2.2   2.1   2.0
struct Field {
  int word, index;
};
TESSERA_BOTH constexpr bool is_scattered(int bitwidth, int step, int pair) {
  return bitwidth == 3 && step == 3 && pair == 3;
}
TESSERA_BOTH constexpr Field field_of(int bitwidth, int step, int pair) {
  return bitwidth == 3 && step == 3 ? Field{pair, 4} : Field{step, pair};
}

/// Both halves of a register pair have the same place 16 bits apart (8 bits for 8-bit codes, whose
/// bytes pick_bytes spreads), so one mask extracts two codes.
TESSERA_BOTH constexpr BitPlace bit_place(int bitwidth, Slot slot, int index) {
  if (bitwidth == 8)
    return {2 * slot.step + slot.pair / 2, 8 * (slot.pair % 2 * 2 + slot.half) + index};
  if (is_scattered(bitwidth, slot.step, slot.pair)) return {index, 15 + 16 * slot.half};
  const Field field = field_of(bitwidth, slot.step, slot.pair);
  return {field.word, bitwidth * field.index + index + 16 * slot.half};
}

/// Where word `word` of `lane` lies in its tile: lanes beside each other, in vectors of 16 bytes (3
/// bits: one of 8 and one of 4), so that a warp's load is one run of memory.
TESSERA_BOTH constexpr int word_in_tile(int bitwidth, int lane, int word) {
  if (bitwidth == 3) return word < 2 ? lane * 2 + word : 64 + lane;
  return word / 4 * 128 + lane * 4 + word % 4;
}

/// Where the scale and zero point of (row, group) lie. Rows g and g + 8 of a tile are neighbours,
/// because one lane wants both.
TESSERA_BOTH constexpr std::int64_t scale_index(std::int64_t row, std::int64_t group,
                                                std::int64_t num_groups) {
  const std::int64_t row_tile = row / kTileRows;
  const int within = static_cast<int>(row % kTileRows);
  return (row_tile * num_groups + group) * kTileRows + within % 8 * 2 + within / 8;
}

TESSERA_BOTH constexpr std::int64_t num_tiles(std::int64_t count, int tile) {
  return (count + tile - 1) / tile;
}

}  // namespace tessera::kernels::cuda
