#pragma once

#include <utility>

#include "../packed.h"
#include "tessera/kernels/gemm_a8.h"
#include "vector.h"

// dequant_gemm_a8: the codes of the weights stay integers.
//
// A lane of 32 bits is an output row, as in dequant_gemm. A step takes up to four columns of a row:
// its bytes hold their codes, which are multiplied by the four bytes of a token that a broadcast
// from memory brings. `Isa` has
//
//     kLanes, kTile      tokens whose sums stay in registers
//     Steps<Bits>        of a unit: codes<Step>() from the unit's words, the columns in its bytes,
//                        add() of the products to the sums of a block, widen() of those to integers
//     fma(), load()      a * b + c, numbers of any type
//     quantise_block()   a block of a token to 8 bits
namespace tessera::kernels::cpu {
namespace {

constexpr int kColumns = static_cast<int>(kActivationBlock);

/// Goes over the blocks of the activations.
struct Walk {
  Walk(const PackedLayout& layout, std::int64_t num_columns, std::int64_t block)
      : l(layout), columns(num_columns) {
    const std::int64_t per_group = (l.group_size + kColumns - 1) / kColumns;
    group = block / per_group;
    inside = block % per_group * kColumns;
  }
  static std::int64_t blocks(const PackedLayout& l, std::int64_t columns) {
    const std::int64_t per_group = (l.group_size + kColumns - 1) / kColumns;
    return (l.groups - 1) * per_group +
           (l.columns_of(l.groups - 1, columns) + kColumns - 1) / kColumns;
  }
  TESSERA_KERNELS_INLINE std::int64_t first_column() const { return group * l.group_size + inside; }
  TESSERA_KERNELS_INLINE std::int64_t count() const {
    const std::int64_t left = l.columns_of(group, columns) - inside;
    return left < kColumns ? left : kColumns;
  }
  TESSERA_KERNELS_INLINE void next() {
    inside += kColumns;
    if (inside < l.group_size) return;
    inside = 0;
    ++group;
  }

  const PackedLayout& l;
  std::int64_t columns, group, inside;
};

/// A block of a token as integers, times scale: codes[0] alone, or codes[0] * 2^16 + codes[1] * 2^8
/// + codes[2]; zeros after the last column. `sum`: of the integers.
template <int Digits>
struct TokenBlock {
  alignas(32) std::int8_t codes[Digits][kColumns];
  float scale;
  std::int32_t sum;
};

template <class Isa, int Digits, int Bits, Offset Kind>
class IntegerGemm {
 public:
  static void run(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                  std::int64_t out_stride) {
    const std::int64_t blocks = Walk::blocks(w.layout, w.columns);
    const std::int64_t most = x.rows < kPanelTokens ? x.rows : kPanelTokens;
    const std::int64_t strip = kPanelBlocks / most;
    Panel panel;
    for (std::int64_t first = 0; first < blocks; first += strip) {
      panel.first = first;
      panel.blocks = blocks - first < strip ? blocks - first : strip;
      for (std::int64_t token = 0; token < x.rows; token += kPanelTokens) {
        const std::int64_t count = x.rows - token < kPanelTokens ? x.rows - token : kPanelTokens;
        prepare(x, token, count, w, &panel);
        for (std::int64_t row = outputs.first; row < outputs.last; row += kRows) {
          const std::int64_t rows = outputs.last - row < kRows ? outputs.last - row : kRows;
          float* to = out + token * out_stride + row;
          for (std::int64_t t = 0; t < count; t += kTile, to += kTile * out_stride) {
            const std::int64_t left = count - t < kTile ? count - t : kTile;
            tile_of_any(std::make_index_sequence<kTile>{}, left - 1, w, row, panel, t,
                        {to, out_stride, rows, first == 0});
          }
        }
      }
    }
  }

 private:
  using Ints = typename Simd<Isa::kLanes>::Ints;
  using Floats = typename Simd<Isa::kLanes>::Floats;
  using S = typename Isa::template Steps<Bits>;
  static constexpr int kLanes = Isa::kLanes, kVectors = kRows / kLanes, kTile = Isa::kTile;
  static constexpr int kUnits = kColumns / S::kUnitColumns;  // of a whole block
  static constexpr int kWords = kUnits * S::kCount;          // of a token's digit in a block
  static constexpr std::int64_t kPanelTokens = 64;
  static constexpr int kAhead = 4096, kScalesAhead = 512;  // bytes fetched ahead
  static constexpr std::int64_t kPanelBlocks = Digits == 1 ? 2048 : 1024;

  /// Blocks [first, first + blocks) of some tokens. Tiles of tokens, the last one perhaps of fewer,
  /// follow each other: [tile][block][step][token of the tile].
  struct Panel {
    alignas(64) std::int32_t words[kPanelBlocks * kWords * Digits];
    float scale[kPanelBlocks];
    std::int32_t sum[kPanelBlocks];  ///< of the codes, times the zero where all have the same
    float low[kPanelBlocks];         ///< scale * sum, what a minimum is multiplied by
    std::int64_t first, blocks;
  };
  struct Output {
    float* data;
    std::int64_t stride, rows;
    bool first;
  };

  static void prepare(Matrix x, std::int64_t first, std::int64_t count, const CodedWeights& w,
                      Panel* panel) {
    const std::int32_t zero = Kind == Offset::zero ? w.format.zero : 1;
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t tile = t / kTile * kTile, lane = t - tile;
      const std::int64_t width = count - tile < kTile ? count - tile : kTile;
      Walk walk(w.layout, x.columns, panel->first);
      for (std::int64_t b = 0; b < panel->blocks; ++b, walk.next()) {
        TokenBlock<Digits> block;
        const std::int64_t from = (first + t) * x.stride + walk.first_column();
        Isa::quantise_block(at(x.data, x.type, from), x.type, walk.count(), &block);
        const std::int64_t to = tile * panel->blocks + b * width + lane;
        panel->scale[to] = block.scale;
        panel->sum[to] = block.sum * zero;
        panel->low[to] = block.scale * static_cast<float>(block.sum);
        std::int32_t* words =
            panel->words + (tile * panel->blocks + b * width) * kWords * Digits + lane;
        for (int digit = 0; digit < Digits; ++digit) {
          arrange(block.codes[digit], words + digit * kWords * width, width);
        }
      }
    }
  }

  /// The codes of a block in the order of the steps, `width` words apart.
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* to,
                                             std::int64_t width) {
    alignas(32) std::int32_t words[kWords];
    S::arrange(codes, words);
    for (int word = 0; word < kWords; ++word) to[word * width] = words[word];
  }

  template <std::size_t... Tokens>
  TESSERA_KERNELS_INLINE static void tile_of_any(std::index_sequence<Tokens...>, std::int64_t which,
                                                 const CodedWeights& w, std::int64_t row,
                                                 const Panel& panel, std::int64_t first,
                                                 const Output& out) {
    using Tile =
        void (*)(const CodedWeights&, std::int64_t, const Panel&, std::int64_t, const Output&);
    static constexpr Tile kTiles[] = {tile<static_cast<int>(Tokens) + 1>...};
    kTiles[which](w, row, panel, first, out);
  }

  template <int Tokens>
  using Sums = Ints[Tokens][kVectors];

  template <int Tokens>
  [[gnu::noinline]] static void tile(const CodedWeights& w, std::int64_t row, const Panel& panel,
                                     std::int64_t first, const Output& out) {
    Floats total[Tokens][kVectors];
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) load(out, t, total[t]);
    const PackedLayout& l = w.layout;
    Walk walk(l, w.columns, panel.first);
    const std::uint32_t* words =
        w.words + l.word(row / kRows, walk.group, walk.inside / S::kUnitColumns);
    const std::int64_t first_scale = row / kRows * l.groups * kRows;
    const std::int32_t* x = panel.words + first * panel.blocks * kWords * Digits;
    std::int64_t at = first * panel.blocks;
    for (std::int64_t b = 0; b < panel.blocks; ++b) {
      Sums<Tokens> sums = {};
      const std::int64_t count = walk.count();
      add_columns<true, Tokens>(words, x, count, sums);
#pragma GCC unroll 2
      for (int digit = 1; digit < Digits; ++digit) {
        next_digit<Tokens>(sums);
        add_columns<false, Tokens>(words, x + digit * kWords * Tokens, count, sums);
      }
      words += (count + S::kUnitColumns - 1) / S::kUnitColumns * S::kUnitWords * kRows;
      finish<Tokens>(w, first_scale + walk.group * kRows, panel, at, sums, total);
      x += kWords * Digits * Tokens;
      at += Tokens;
      walk.next();
    }
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) store(out, t, total[t]);
  }

  template <int Tokens>
  TESSERA_KERNELS_INLINE static void next_digit(Sums<Tokens>& sums) {
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] <<= 8;
    }
  }

  template <bool Ahead, int Tokens>
  TESSERA_KERNELS_INLINE static void add_columns(const std::uint32_t* words, const std::int32_t* x,
                                                 std::int64_t count, Sums<Tokens>& sums) {
    if (count == kColumns) {
      add_units<kUnits, Ahead, Tokens>(words, x, sums);
    } else if (Bits != 3 && count == 16) {
      add_units<(kUnits + 1) / 2, Ahead, Tokens>(words, x, sums);
    } else {
      for (std::int64_t unit = 0; unit * S::kUnitColumns < count; ++unit) {
        add_units<1, Ahead, Tokens>(words + unit * S::kUnitWords * kRows,
                                    x + unit * S::kCount * Tokens, sums);
      }
    }
  }

  template <int Units, bool Ahead, int Tokens>
  TESSERA_KERNELS_INLINE static void add_units(const std::uint32_t* at, const std::int32_t* x,
                                               Sums<Tokens>& sums) {
#pragma GCC unroll 8
    for (int unit = 0; unit < Units; ++unit) {
      Ints words[kVectors][S::kUnitWords];
#pragma GCC unroll 4
      for (int i = 0; i < S::kUnitWords; ++i) {
        if (Ahead) __builtin_prefetch(at + i * kRows + kAhead / 4);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) words[v][i] = read<Ints>(at + i * kRows + v * kLanes);
      }
      add_steps<0, Tokens>(words, x, sums);
      at += S::kUnitWords * kRows;
      x += S::kCount * Tokens;
    }
  }

  template <int Step, int Tokens>
  TESSERA_KERNELS_INLINE static void add_steps(const Ints (&words)[kVectors][S::kUnitWords],
                                               const std::int32_t* x, Sums<Tokens>& sums) {
    Ints codes[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) codes[v] = S::template codes<Step>(words[v]);
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
      const Ints token = x[Step * Tokens + t] - Ints{};
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = S::add(sums[t][v], codes[v], token);
    }
    if constexpr (Step + 1 < S::kCount) add_steps<Step + 1, Tokens>(words, x, sums);
  }

  /// scale * token scale * (sum of products - zero point * sum of the token's codes), and
  /// minimum * token scale * sum of the token's codes.
  template <int Tokens>
  TESSERA_KERNELS_INLINE static void finish(const CodedWeights& w, std::int64_t at,
                                            const Panel& panel, std::int64_t token,
                                            const Sums<Tokens>& sums,
                                            Floats (&total)[Tokens][kVectors]) {
    const Real type = w.format.scale_type;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t lane = at + v * kLanes;
      const char* scales = w.scales + lane * size_of(type);
      const Floats rows = Isa::load(scales, type);
      if (v == 0) __builtin_prefetch(scales + kScalesAhead);
      Floats minima{};
      Ints zero{};
      if constexpr (Kind == Offset::minima) {
        minima = Isa::load(w.offsets + lane * size_of(type), type);
        if (v == 0) __builtin_prefetch(w.offsets + lane * size_of(type) + kScalesAhead);
      }
      if constexpr (Kind == Offset::zero_points) zero = Isa::bytes(w.offsets + lane);
#pragma GCC unroll 8
      for (int t = 0; t < Tokens; ++t) {
        Ints whole = S::widen(sums[t][v]);
        if constexpr (Kind == Offset::zero) whole -= panel.sum[token + t] - Ints{};
        if constexpr (Kind == Offset::zero_points) whole -= (panel.sum[token + t] - Ints{}) * zero;
        const Floats part =
            __builtin_convertvector(whole, Floats) * all<Floats>(panel.scale[token + t]);
        total[t][v] = Isa::fma(rows, part, total[t][v]);
        if constexpr (Kind == Offset::minima) {
          total[t][v] = Isa::fma(minima, all<Floats>(panel.low[token + t]), total[t][v]);
        }
      }
    }
  }

  TESSERA_KERNELS_INLINE static void load(const Output& out, std::int64_t token,
                                          Floats (&total)[kVectors]) {
    alignas(64) float values[kRows] = {};
    if (!out.first) {
      for (std::int64_t r = 0; r < out.rows; ++r) values[r] = out.data[token * out.stride + r];
    }
    for (int v = 0; v < kVectors; ++v) total[v] = read<Floats>(values + v * kLanes);
  }
  TESSERA_KERNELS_INLINE static void store(const Output& out, std::int64_t token,
                                           const Floats (&total)[kVectors]) {
    alignas(64) float values[kRows];
    for (int v = 0; v < kVectors; ++v) write(values + v * kLanes, total[v]);
    for (std::int64_t r = 0; r < out.rows; ++r) out.data[token * out.stride + r] = values[r];
  }
};

template <class Isa, int Digits, int Bits>
void integer_gemm_of_bits(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                          std::int64_t out_stride) {
  switch (w.format.offset) {
    case Offset::zero:
      return IntegerGemm<Isa, Digits, Bits, Offset::zero>::run(x, w, outputs, out, out_stride);
    case Offset::zero_points:
      return IntegerGemm<Isa, Digits, Bits, Offset::zero_points>::run(x, w, outputs, out,
                                                                      out_stride);
    case Offset::minima:
      return IntegerGemm<Isa, Digits, Bits, Offset::minima>::run(x, w, outputs, out, out_stride);
  }
}

/// dequant_gemm_a8().
template <class Isa>
void gemm_a8_of(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                std::int64_t out_stride) {
  if (w.format.bitwidth == 3) integer_gemm_of_bits<Isa, 1, 3>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 4) integer_gemm_of_bits<Isa, 1, 4>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 8) integer_gemm_of_bits<Isa, 1, 8>(x, w, outputs, out, out_stride);
}

}  // namespace
}  // namespace tessera::kernels::cpu
