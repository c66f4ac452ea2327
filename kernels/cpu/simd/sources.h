#pragma once

#include "segments.h"

// What FewTokens and ManyTokens multiply with: weights that come in units of columns, sixteen rows
// of a block side by side, so that a lane is an output row. A source gives the numbers of a column,
// and for every group a scale and what is added before and after scaling:
//
//     sum over the group of x * weight = scale * (shift * sum of x + sum of x * number)
//                                        + minimum * sum of x
namespace tessera::kernels::cpu {
namespace {

template <class Isa>
struct Group {
  typename Simd<Isa::kLanes>::Floats scale[kRows / Isa::kLanes], shift[kRows / Isa::kLanes],
      minimum[kRows / Isa::kLanes];
};

/// `Bits` wide codes in words: which word and where in it a column of a unit is.
///
/// Turning codes into floats takes two instructions per vector: the field is masked where it stands
/// in its word and converted there. Field i of a 4-bit word is then 16^i times too large, which is
/// exact in f32, and is made up for in the activations: they are multiplied by 16^-i, also exactly,
/// once per call.
template <int Bits, class Isa>
class Coded {
 public:
  using Floats = typename Simd<Isa::kLanes>::Floats;
  using Words = typename Simd<Isa::kLanes>::Words;
  static constexpr bool kGrouped = true;
  static constexpr int kVectors = kRows / Isa::kLanes;
  static constexpr int kUnit = Bits == 3 ? 32 : 32 / Bits;
  static constexpr int kLeastSegment = kUnit;  // in columns, with padding
  static constexpr int kUnitWords = Bits == 3 ? 3 : 1;
  static constexpr int kUnitBytes = kUnitWords * kRows * 4;

  explicit Coded(const CodedWeights& weights) : w_(weights) {}
  Groups groups() const {
    return {w_.columns, w_.layout.group_size, w_.layout.groups, w_.layout.units_per_group};
  }
  bool has_minima() const { return w_.format.offset == Offset::minima; }
  std::int64_t block_bytes() const { return w_.layout.units_per_row * kUnitBytes; }
  const char* block(std::int64_t index) const {
    return reinterpret_cast<const char*>(w_.words) + index * block_bytes();
  }

  /// How much too large number() leaves the code of a column.
  static constexpr float excess(int column) {
    if (Bits == 3 && column >= 30) return 1;
    const int shift = column % kPerWord * Bits;
    return shift + Bits == 32 ? 1.0f : static_cast<float>(1u << shift);
  }

  struct Unit {
    Words words[kVectors][kUnitWords];
  };
  TESSERA_KERNELS_INLINE static void read_unit(const char* at, Unit* to) {
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < kUnitWords; ++i) {
        to->words[v][i] = read<Words>(at + (i * kRows + v * Isa::kLanes) * 4);
      }
    }
  }
  /// The codes of `column` of a unit, times excess(column).
  TESSERA_KERNELS_INLINE static Floats number(const Unit& unit, int vector, int column) {
    const Words* words = unit.words[vector];
    Words bits;
    if (Bits == 3 && column >= 30) {
      bits = (words[0] >> column & 1u) | (words[1] >> (column - 1) & 2u) |
             (words[kUnitWords - 1] >> (column - 2) & 4u);
    } else {
      const Words word = words[Bits == 3 ? column / kPerWord : 0];
      const int shift = column % kPerWord * Bits;
      bits = shift + Bits == 32 ? word >> shift : word & (((1u << Bits) - 1) << shift);
    }
    return __builtin_convertvector((typename Simd<Isa::kLanes>::Ints)bits, Floats);
  }

  TESSERA_KERNELS_INLINE void prefetch_group(std::int64_t block, std::int64_t group) const {
    const std::int64_t at = (block * w_.layout.groups + group) * kRows;
    __builtin_prefetch(w_.scales + at * size_of(w_.format.scale_type));
    if (has_minima()) __builtin_prefetch(w_.offsets + at * size_of(w_.format.scale_type));
  }
  TESSERA_KERNELS_INLINE Group<Isa> group(std::int64_t block, std::int64_t group) const {
    const Real type = w_.format.scale_type;
    Group<Isa> result;
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t at = (block * w_.layout.groups + group) * kRows + v * Isa::kLanes;
      result.scale[v] = Isa::load(w_.scales + at * size_of(type), type);
      result.shift[v] = result.minimum[v] = Floats{};
      if (w_.format.offset == Offset::zero) {
        result.shift[v] = all<Floats>(static_cast<float>(-w_.format.zero));
      } else if (w_.format.offset == Offset::minima) {
        result.minimum[v] = Isa::load(w_.offsets + at * size_of(type), type);
      } else {
        typename Simd<Isa::kLanes>::Ints zero;
        const auto* zero_points = reinterpret_cast<const std::uint8_t*>(w_.offsets) + at;
        for (int i = 0; i < Isa::kLanes; ++i) zero[i] = -zero_points[i];
        result.shift[v] = __builtin_convertvector(zero, Floats);
      }
    }
    return result;
  }

 private:
  static constexpr int kPerWord = 32 / Bits;
  const CodedWeights w_;
};

/// 16- or 32-bit numbers; the whole row is one group.
template <Real Type, class Isa>
class Dense {
 public:
  using Floats = typename Simd<Isa::kLanes>::Floats;
  static constexpr bool kGrouped = false;
  static constexpr int kVectors = kRows / Isa::kLanes;
  static constexpr int kUnit = 1;
  static constexpr int kLeastSegment = kSegmentColumns;
  static constexpr int kUnitBytes = kRows * static_cast<int>(size_of(Type));

  explicit Dense(const DenseWeights& weights) : w_(weights) {}
  Groups groups() const { return {w_.columns, w_.columns, 1, w_.columns}; }
  bool has_minima() const { return false; }
  std::int64_t block_bytes() const { return w_.columns * kUnitBytes; }
  const char* block(std::int64_t index) const {
    return static_cast<const char*>(w_.data) + index * block_bytes();
  }
  static constexpr float excess(int) { return 1; }

  struct Unit {
    Floats numbers[kVectors];
  };
  TESSERA_KERNELS_INLINE static void read_unit(const char* at, Unit* to) {
    for (int v = 0; v < kVectors; ++v) {
      to->numbers[v] = Isa::load(at + v * Isa::kLanes * size_of(Type), Type);
    }
  }
  TESSERA_KERNELS_INLINE static Floats number(const Unit& unit, int vector, int) {
    return unit.numbers[vector];
  }
  TESSERA_KERNELS_INLINE void prefetch_group(std::int64_t, std::int64_t) const {}
  TESSERA_KERNELS_INLINE Group<Isa> group(std::int64_t, std::int64_t) const {
    Group<Isa> result;
    for (int v = 0; v < kVectors; ++v) {
      result.scale[v] = all<Floats>(1);
      result.shift[v] = result.minimum[v] = Floats{};
    }
    return result;
  }

 private:
  const DenseWeights w_;
};

}  // namespace
}  // namespace tessera::kernels::cpu
