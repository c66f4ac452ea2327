#pragma once

#include "../packed.h"
#include "vector.h"

// dequant_gemm for vectors of `Lanes` floats. A lane is an output row, so that a token's number is
// broadcast, and no sum across lanes is ever needed.
//
// Turning codes into floats takes two instructions per vector: the field is masked where it stands
// in its word and converted there. Field i of a 4-bit word is then 16^i times too large, which is
// exact in f32, and is made up for in the activations: they are multiplied by 16^-i, also exactly,
// once per call. The zero point is made up for by the sum of the activations of a segment:
//     sum of x * scale * (code - zero) = scale * (sum of x * code - zero * sum of x).
namespace tessera::kernels::cpu {
namespace {

constexpr int kRows = static_cast<int>(kRowsPerBlock);

/// `Bits` wide codes in words: which word and where in it a column of a unit is.
template <int Bits>
struct Field {
  static constexpr int kUnitColumns = Bits == 3 ? 32 : 32 / Bits;
  static constexpr int kUnitWords = Bits == 3 ? 3 : 1;
  static constexpr int kPerWord = 32 / Bits;

  /// How much too large codes() leaves the code of a column.
  static constexpr float excess(int column) {
    if (Bits == 3 && column >= 30) return 1;
    const int shift = column % kPerWord * Bits;
    return shift + Bits == 32 ? 1.0f : static_cast<float>(1u << shift);
  }

  /// The codes of `column` of a unit, times excess(column); words[word] of the unit.
  template <int Lanes>
  TESSERA_KERNELS_INLINE static typename Simd<Lanes>::Floats codes(
      const typename Simd<Lanes>::Words* words, int column) {
    using Words = typename Simd<Lanes>::Words;
    Words bits;
    if (Bits == 3 && column >= 30) {
      bits = (words[0] >> column & 1u) | (words[1] >> (column - 1) & 2u) |
             (words[2] >> (column - 2) & 4u);
    } else {
      const Words word = words[Bits == 3 ? column / kPerWord : 0];
      const int shift = column % kPerWord * Bits;
      bits = shift + Bits == 32 ? word >> shift : word & (((1u << Bits) - 1) << shift);
    }
    return __builtin_convertvector((typename Simd<Lanes>::Ints)bits, typename Simd<Lanes>::Floats);
  }
};

/// Consecutive units of one group. Groups are cut into segments so that the sums stay short.
struct Segment {
  std::int64_t group, first_column, columns, first_unit, units, at;  ///< at: column in the panel
};

/// What a call works through at a time: some segments, whose activations fit on the stack.
constexpr int kFewColumns = 8192, kPanelColumns = 256, kSegmentColumns = 256;
constexpr int kMaxSegments = 512;

struct Strip {
  Segment segments[kMaxSegments];
  int num_segments = 0;
  std::int64_t columns = 0;  ///< of the panel, with padding
};

/// Where the next strip begins.
struct Cursor {
  std::int64_t group = 0, inside = 0;  ///< inside: column of the group
};

template <int Bits>
bool next_strip(const PackedLayout& l, std::int64_t columns, int max_columns, Cursor* cursor,
                Strip* strip) {
  constexpr int kUnit = Field<Bits>::kUnitColumns;
  strip->num_segments = 0;
  strip->columns = 0;
  while (cursor->group < l.groups && strip->num_segments < kMaxSegments) {
    const std::int64_t left = l.columns_of(cursor->group, columns) - cursor->inside;
    const std::int64_t room = max_columns - strip->columns;
    if (room < kUnit) break;
    std::int64_t count = left < kSegmentColumns ? left : kSegmentColumns;
    if (count > room) count = room / kUnit * kUnit;
    Segment& s = strip->segments[strip->num_segments++];
    s.group = cursor->group;
    s.first_column = cursor->group * l.group_size + cursor->inside;
    s.columns = count;
    s.first_unit = cursor->group * l.units_per_group + cursor->inside / kUnit;
    s.units = (count + kUnit - 1) / kUnit;
    s.at = strip->columns;
    strip->columns += s.units * kUnit;
    cursor->inside += count;
    if (count == left) *cursor = {cursor->group + 1, 0};
  }
  return strip->num_segments > 0;
}

/// The scales and zero points of a block's rows in one group.
template <int Lanes>
struct GroupScales {
  typename Simd<Lanes>::Floats scale[kRows / Lanes], zero_point[kRows / Lanes];
};

template <int Lanes, class Convert>
TESSERA_KERNELS_INLINE GroupScales<Lanes> scales_of(const CodedWeights& w, const PackedLayout& l,
                                                    std::int64_t block, std::int64_t group) {
  using Floats = typename Simd<Lanes>::Floats;
  const char* scales = w.scales;
  const std::int64_t at = (block * l.groups + group) * kRows;
  const auto* zero_points = reinterpret_cast<const std::uint8_t*>(scales + l.scales_bytes) + at;
  GroupScales<Lanes> result;
  for (int v = 0; v < kRows / Lanes; ++v) {
    result.scale[v] = Convert::template load<Lanes>(
        cpu::at(scales, w.format.scale_type, at + v * Lanes), w.format.scale_type);
    if ((w.format.offset == Offset::zero)) {
      result.zero_point[v] = all<Floats>(static_cast<float>(1 << (w.format.bitwidth - 1)));
    } else {
      typename Simd<Lanes>::Ints zero;
      for (int i = 0; i < Lanes; ++i) zero[i] = zero_points[v * Lanes + i];
      result.zero_point[v] = __builtin_convertvector(zero, Floats);
    }
  }
  return result;
}

/// Activations of up to `Tokens` tokens over a strip, in f32: x[column * Tokens + token].
template <class Convert>
void load_row(Matrix activations, std::int64_t token, const Segment& s, std::int64_t padded,
              float* to) {
  const void* from =
      at(activations.data, activations.type, token * activations.stride + s.first_column);
  Convert::to_f32(from, activations.type, s.columns, to);
  for (std::int64_t c = s.columns; c < padded; ++c) to[c] = 0;
}

/// Few tokens: codes go from the registers into the sums.
template <int Bits, int Tokens, int Lanes, class Convert>
class FewTokens {
 public:
  using Floats = typename Simd<Lanes>::Floats;
  using Words = typename Simd<Lanes>::Words;
  static constexpr int kVectors = kRows / Lanes;
  static constexpr int kUnit = Field<Bits>::kUnitColumns;
  // Eight sums in flight keep the multipliers busy.
  static constexpr int kChains = Tokens * kVectors >= 8        ? 1
                                 : 8 / (Tokens * kVectors) < 4 ? 8 / (Tokens * kVectors)
                                                               : 4;

  static void run(Matrix x, std::int64_t first_token, const CodedWeights& w, Rows outputs,
                  float* out, std::int64_t out_stride) {
    const PackedLayout& l = w.layout;
    Strip strip;
    // The longer a strip is, the longer are the runs of weights that are read in order; but one
    // that fills the panel leaves no room in the first-level cache, so strips are of one length.
    constexpr int kStripColumns = kFewColumns / Tokens / 32 * 32;
    const std::int64_t strips = (w.columns + kStripColumns - 1) / kStripColumns;
    const auto length = static_cast<int>(((w.columns + strips - 1) / strips + 31) / 32 * 32);
    alignas(64) float panel[kStripColumns * Tokens];
    float sums[kMaxSegments * Tokens];
    Cursor cursor;
    for (bool first = true; next_strip<Bits>(l, w.columns, length, &cursor, &strip);
         first = false) {
      prepare(x, first_token, strip, panel, sums);
      for (std::int64_t row = outputs.first; row < outputs.last; row += kRows) {
        Floats total[Tokens][kVectors] = {};
        block(w, l, row / kRows, strip, panel, sums, total);
        const std::int64_t rows = outputs.last - row < kRows ? outputs.last - row : kRows;
        for (int t = 0; t < Tokens; ++t) {
          store(total[t], rows, first, out + (first_token + t) * out_stride + row);
        }
      }
    }
  }

 private:
  static void prepare(Matrix x, std::int64_t first_token, const Strip& strip, float* panel,
                      float* sums) {
    alignas(64) float row[kSegmentColumns + 32];
    for (int i = 0; i < strip.num_segments; ++i) {
      const Segment& s = strip.segments[i];
      for (int t = 0; t < Tokens; ++t) {
        load_row<Convert>(x, first_token + t, s, s.units * kUnit, row);
        double sum = 0;
        for (std::int64_t c = 0; c < s.columns; ++c) sum += static_cast<double>(row[c]);
        sums[i * Tokens + t] = static_cast<float>(sum);
        for (std::int64_t unit = 0; unit < s.units; ++unit) {
          for (int c = 0; c < kUnit; ++c) {
            panel[(s.at + unit * kUnit + c) * Tokens + t] =
                row[unit * kUnit + c] * (1 / Field<Bits>::excess(c));
          }
        }
      }
    }
  }

  TESSERA_KERNELS_INLINE static void block(const CodedWeights& w, const PackedLayout& l,
                                           std::int64_t index, const Strip& strip,
                                           const float* panel, const float* sums,
                                           Floats (&total)[Tokens][kVectors]) {
    const auto* words = w.words + l.word(index, 0, 0);
    for (int i = 0; i < strip.num_segments; ++i) {
      const Segment& s = strip.segments[i];
      Floats part[Tokens][kVectors][kChains] = {};
      const std::uint32_t* at = words + s.first_unit * Field<Bits>::kUnitWords * kRows;
      const float* x = panel + s.at * Tokens;
      for (std::int64_t unit = 0; unit < s.units; ++unit) {
        add_unit(at, x, part);
        at += Field<Bits>::kUnitWords * kRows;
        x += kUnit * Tokens;
      }
      const GroupScales<Lanes> g = scales_of<Lanes, Convert>(w, l, index, s.group);
      for (int t = 0; t < Tokens; ++t) {
        for (int v = 0; v < kVectors; ++v) {
          Floats sum = part[t][v][0];
          for (int c = 1; c < kChains; ++c) sum += part[t][v][c];
          sum -= g.zero_point[v] * all<Floats>(sums[i * Tokens + t]);
          total[t][v] += g.scale[v] * sum;
        }
      }
    }
  }

  TESSERA_KERNELS_INLINE static void add_unit(const std::uint32_t* at, const float* x,
                                              Floats (&part)[Tokens][kVectors][kChains]) {
    Words words[kVectors][Field<Bits>::kUnitWords];
    __builtin_prefetch(at + 32 * kRows);  // 2 KiB ahead, where there is no cache line yet
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < Field<Bits>::kUnitWords; ++i) {
        words[v][i] = read<Words>(at + i * kRows + v * Lanes);
      }
    }
#pragma GCC unroll 32
    for (int c = 0; c < kUnit; ++c) {
      for (int v = 0; v < kVectors; ++v) {
        const Floats codes = Field<Bits>::template codes<Lanes>(words[v], c);
        for (int t = 0; t < Tokens; ++t) {
          part[t][v][c % kChains] += codes * all<Floats>(x[c * Tokens + t]);
        }
      }
    }
  }

  static void store(const Floats* total, std::int64_t rows, bool first, float* out) {
    alignas(64) float values[kRows];
    for (int v = 0; v < kVectors; ++v) write(values + v * Lanes, total[v]);
    for (std::int64_t r = 0; r < rows; ++r) out[r] = first ? values[r] : out[r] + values[r];
  }
};

/// Many tokens: the weights of a block and a strip become floats once for all tokens of a panel.
template <int Bits, int Lanes, class Convert>
class ManyTokens {
 public:
  using Floats = typename Simd<Lanes>::Floats;
  using Words = typename Simd<Lanes>::Words;
  static constexpr int kVectors = kRows / Lanes;
  static constexpr int kUnit = Field<Bits>::kUnitColumns;
  static constexpr int kTile = 6;                  // tokens whose sums stay in registers
  static constexpr int kPanelTokens = 16 * kTile;  // 96 x 256 floats stay in the second-level cache

  static void run(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                  std::int64_t out_stride) {
    const PackedLayout& l = w.layout;
    Strip strip;
    alignas(64) float tokens[kPanelTokens * kPanelColumns];
    alignas(64) float weights[kPanelColumns * kRows];
    Cursor cursor;
    for (bool first = true; next_strip<Bits>(l, w.columns, kPanelColumns, &cursor, &strip);
         first = false) {
      for (std::int64_t token = 0; token < x.rows; token += kPanelTokens) {
        const std::int64_t count = x.rows - token < kPanelTokens ? x.rows - token : kPanelTokens;
        prepare(x, token, count, strip, tokens);
        for (std::int64_t row = outputs.first; row < outputs.last; row += kRows) {
          dequantise_block(w, l, row / kRows, strip, weights);
          const std::int64_t rows = outputs.last - row < kRows ? outputs.last - row : kRows;
          for (std::int64_t t = 0; t < count; t += kTile) {
            tile(tokens + t * strip.columns, weights, strip.columns,
                 count - t < kTile ? count - t : kTile, rows, first,
                 out + (token + t) * out_stride + row, out_stride);
          }
        }
      }
    }
  }

 private:
  /// [tile][column][token of the tile]; tokens that the last tile lacks are zero.
  static void prepare(Matrix x, std::int64_t first, std::int64_t count, const Strip& strip,
                      float* tokens) {
    alignas(64) float row[kSegmentColumns + 32];
    for (std::int64_t t = 0; t < (count + kTile - 1) / kTile * kTile; ++t) {
      float* to = tokens + t / kTile * kTile * strip.columns + t % kTile;
      for (int i = 0; i < strip.num_segments; ++i) {
        const Segment& s = strip.segments[i];
        const std::int64_t padded = s.units * kUnit;
        if (t < count) load_row<Convert>(x, first + t, s, padded, row);
        for (std::int64_t c = 0; c < padded; ++c) to[(s.at + c) * kTile] = t < count ? row[c] : 0;
      }
    }
  }

  /// [column][row of the block]
  static void dequantise_block(const CodedWeights& w, const PackedLayout& l, std::int64_t index,
                               const Strip& strip, float* weights) {
    const auto* words = w.words + l.word(index, 0, 0);
    for (int i = 0; i < strip.num_segments; ++i) {
      const Segment& s = strip.segments[i];
      const GroupScales<Lanes> g = scales_of<Lanes, Convert>(w, l, index, s.group);
      const std::uint32_t* at = words + s.first_unit * Field<Bits>::kUnitWords * kRows;
      float* to = weights + s.at * kRows;
      for (std::int64_t unit = 0; unit < s.units; ++unit, to += kUnit * kRows) {
        for (int v = 0; v < kVectors; ++v) {
          Words unit_words[Field<Bits>::kUnitWords];
          for (int k = 0; k < Field<Bits>::kUnitWords; ++k) {
            unit_words[k] = read<Words>(at + k * kRows + v * Lanes);
          }
#pragma GCC unroll 32
          for (int c = 0; c < kUnit; ++c) {
            const Floats codes = Field<Bits>::template codes<Lanes>(unit_words, c) *
                                 all<Floats>(1 / Field<Bits>::excess(c));
            write(to + c * kRows + v * Lanes, (codes - g.zero_point[v]) * g.scale[v]);
          }
        }
        at += Field<Bits>::kUnitWords * kRows;
      }
    }
  }

  static void tile(const float* tokens, const float* weights, std::int64_t columns,
                   std::int64_t num_tokens, std::int64_t rows, bool first, float* out,
                   std::int64_t out_stride) {
    Floats sums[kTile][kVectors] = {};
    for (std::int64_t c = 0; c < columns; ++c) {
      Floats w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = read<Floats>(weights + c * kRows + v * Lanes);
#pragma GCC unroll 8
      for (int t = 0; t < kTile; ++t) {
        const Floats x = all<Floats>(tokens[c * kTile + t]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[t][v] += x * w[v];
      }
    }
    alignas(64) float values[kTile][kRows];
#pragma GCC unroll 8
    for (int t = 0; t < kTile; ++t) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) write(values[t] + v * Lanes, sums[t][v]);
    }
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      float* to = out + t * out_stride;
      for (std::int64_t r = 0; r < rows; ++r) to[r] = first ? values[t][r] : to[r] + values[t][r];
    }
  }
};

template <int Bits, int Lanes, class Convert>
void gemm_of_bits(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                  std::int64_t out_stride) {
  constexpr std::int64_t kFew = 4;
  if (x.rows > kFew) {
    ManyTokens<Bits, Lanes, Convert>::run(x, w, outputs, out, out_stride);
  } else if (x.rows == 1) {
    FewTokens<Bits, 1, Lanes, Convert>::run(x, 0, w, outputs, out, out_stride);
  } else if (x.rows == 2) {
    FewTokens<Bits, 2, Lanes, Convert>::run(x, 0, w, outputs, out, out_stride);
  } else if (x.rows == 3) {
    FewTokens<Bits, 3, Lanes, Convert>::run(x, 0, w, outputs, out, out_stride);
  } else {
    FewTokens<Bits, 4, Lanes, Convert>::run(x, 0, w, outputs, out, out_stride);
  }
}

template <int Lanes, class Convert>
void dequant_gemm_of(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  if (w.format.bitwidth == 3) gemm_of_bits<3, Lanes, Convert>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 4) gemm_of_bits<4, Lanes, Convert>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 8) gemm_of_bits<8, Lanes, Convert>(x, w, outputs, out, out_stride);
}

}  // namespace
}  // namespace tessera::kernels::cpu
