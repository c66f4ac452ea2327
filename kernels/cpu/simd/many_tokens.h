#pragma once

#include <utility>

#include "sources.h"

// Many tokens: the numbers of some blocks of rows and a strip of columns become floats once for all
// tokens of a panel, unscaled; tiles of tokens times rows keep their sums in registers, and scale
// them at the end of every segment, in the order of operations that FewTokens has.
namespace tessera::kernels::cpu {
namespace {

template <class Source, class Isa>
class ManyTokens {
 public:
  static void run(Matrix x, const Source& w, Rows outputs, float* out, std::int64_t out_stride) {
    const std::int64_t panels = (x.rows + kPanelTokens - 1) / kPanelTokens;
    const std::int64_t tiles = ((x.rows + panels - 1) / panels + kTile - 1) / kTile;
    Panel panel;
    Weights weights;
    weights.has_minima = w.has_minima();
    for (std::int64_t token = 0; token < x.rows; token += tiles * kTile) {
      const std::int64_t left = x.rows - token;
      const std::int64_t count = left < tiles * kTile ? left : tiles * kTile;
      // All strips of a panel before the next one: its outputs stay in the second-level cache.
      Strips strips(w.groups(), Source::kUnit, Isa::kStripColumns);
      for (bool first = true; strips.next(&panel.strip); first = false) {
        prepare(x, token, count, &panel);
        for (std::int64_t row = outputs.first; row < outputs.last; row += kTileRows) {
          const std::int64_t rows = outputs.last - row < kTileRows ? outputs.last - row : kTileRows;
          dequantise(w, row / kRows, (rows + kRows - 1) / kRows, panel.strip, &weights);
          for (std::int64_t t = 0; t < count; t += kTile) {
            float* to = out + (token + t) * out_stride + row;
            const std::int64_t some = count - t < kTile ? count - t : kTile;
            tile(panel, t, some, weights, {to, out_stride, rows, first});
          }
        }
      }
    }
  }

 private:
  using Floats = typename Simd<Isa::kLanes>::Floats;
  static constexpr int kTile = Isa::kTileTokens, kTileRows = Isa::kTileBlocks * kRows;
  static constexpr int kVectors = kTileRows / Isa::kLanes;
  static constexpr int kPanelTokens = Isa::kPanelTokens / kTile * kTile;
  static constexpr int kColumns =
      Isa::kStripColumns > kSegmentColumns ? Isa::kStripColumns : kSegmentColumns;
  static constexpr int kStride = kColumns + 16;  // of tokens: not a multiple of a page
  static constexpr int kSegments = kColumns / Source::kLeastSegment;

  struct Panel {
    Strip strip;
    alignas(64) float x[kPanelTokens * kStride];  ///< [token][column of the strip]
    float sums[kPanelTokens * kSegments];         ///< [token][segment]
  };
  /// Of the rows of a tile: [column][row] by vectors, and [segment][row].
  struct Weights {
    alignas(64) float numbers[kColumns * kTileRows];
    alignas(64) float scale[kSegments * kTileRows];
    alignas(64) float shift[kSegments * kTileRows];
    alignas(64) float minimum[kSegments * kTileRows];
    bool has_minima;
  };
  struct Output {
    float* data;
    std::int64_t stride, rows;
    bool first;
  };

  static void prepare(Matrix x, std::int64_t first, std::int64_t count, Panel* panel) {
    alignas(64) float row[kSegmentColumns + 64];
    for (std::int64_t t = 0; t < count; ++t) {
      for (int i = 0; i < panel->strip.num_segments; ++i) {
        const Segment& s = panel->strip.segments[i];
        load_segment<Isa>(x, first + t, s, row);
        const auto bytes = static_cast<std::size_t>(s.units * Source::kUnit) * sizeof(float);
        __builtin_memcpy(panel->x + t * kStride + s.at, row, bytes);
        panel->sums[t * kSegments + i] = Source::kGrouped ? sum_of<Isa>(row, s.columns) : 0;
      }
    }
  }

  static void dequantise(const Source& w, std::int64_t first, std::int64_t blocks,
                         const Strip& strip, Weights* to) {
    for (std::int64_t b = 0; b < Isa::kTileBlocks; ++b) {
      // A block that is not there repeats one that is; its sums are not stored.
      const std::int64_t block = first + (b < blocks ? b : 0);
      const char* at = w.block(block) + strip.segments[0].first_unit * Source::kUnitBytes;
      for (int i = 0; i < strip.num_segments; ++i) {
        const Segment& s = strip.segments[i];
        const Group<Isa> group = w.group(block, s.group);
        const std::int64_t place = i * kTileRows + b * kRows;
        for (int v = 0; v < Source::kVectors; ++v) {
          write(to->scale + place + v * Isa::kLanes, group.scale[v]);
          write(to->shift + place + v * Isa::kLanes, group.shift[v]);
          write(to->minimum + place + v * Isa::kLanes, group.minimum[v]);
        }
        float* numbers = to->numbers + s.at * kTileRows + b * kRows;
        for (std::int64_t unit = 0; unit < s.units; ++unit, at += Source::kUnitBytes) {
          typename Source::Unit words;
          Source::read_unit(at, &words);
#pragma GCC unroll 32
          for (int c = 0; c < Source::kUnit; ++c, numbers += kTileRows) {
            for (int v = 0; v < Source::kVectors; ++v) {
              const Floats whole = all<Floats>(1 / Source::excess(c));
              write(numbers + v * Isa::kLanes, Source::number(words, v, c) * whole);
            }
          }
        }
      }
    }
  }

  template <int Tokens>
  [[gnu::noinline]] static void tile_of(const Panel& panel, std::int64_t first, const Weights& w,
                                        const Output& out) {
    alignas(64) float total[Tokens][kTileRows];
    const float* tokens = panel.x + first * kStride;
    const float* sums = panel.sums + first * kSegments;
    load<Tokens>(out, total);
    for (int i = 0; i < panel.strip.num_segments; ++i, ++sums) {
      const Segment& s = panel.strip.segments[i];
      Floats part[Tokens][kVectors];
#pragma GCC unroll 16
      for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const Floats shift = read<Floats>(w.shift + i * kTileRows + v * Isa::kLanes);
          part[t][v] = shift * all<Floats>(sums[t * kSegments]);
        }
      }
      const float* x = tokens + s.at;
      const float* numbers = w.numbers + s.at * kTileRows;
      for (std::int64_t c = s.units * Source::kUnit; c > 0; --c, ++x, numbers += kTileRows) {
        Floats column[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) column[v] = read<Floats>(numbers + v * Isa::kLanes);
#pragma GCC unroll 16
        for (int t = 0; t < Tokens; ++t) {
          const Floats token = all<Floats>(x[t * kStride]);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) part[t][v] = Isa::fma(token, column[v], part[t][v]);
        }
      }
#pragma GCC unroll 16
      for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const int at = i * kTileRows + v * Isa::kLanes;
          Floats sum = read<Floats>(total[t] + v * Isa::kLanes);
          sum = Isa::fma(read<Floats>(w.scale + at), part[t][v], sum);
          if (w.has_minima) {
            sum = Isa::fma(read<Floats>(w.minimum + at), all<Floats>(sums[t * kSegments]), sum);
          }
          write(total[t] + v * Isa::kLanes, sum);
        }
      }
    }
    for (int t = 0; t < Tokens; ++t) {
      float* to = out.data + t * out.stride;
      if (out.rows == kTileRows) {
        __builtin_memcpy(to, total[t], sizeof total[t]);
      } else {
        for (std::int64_t r = 0; r < out.rows; ++r) to[r] = total[t][r];
      }
    }
  }

  template <int Tokens>
  TESSERA_KERNELS_INLINE static void load(const Output& out, float (&total)[Tokens][kTileRows]) {
    for (int t = 0; t < Tokens; ++t) {
      const float* from = out.data + t * out.stride;
      if (out.first) {
        __builtin_memset(total[t], 0, sizeof total[t]);
      } else if (out.rows == kTileRows) {
        __builtin_memcpy(total[t], from, sizeof total[t]);
      } else {
        for (std::int64_t r = 0; r < kTileRows; ++r) total[t][r] = r < out.rows ? from[r] : 0;
      }
    }
  }

  using TileOf = void (*)(const Panel&, std::int64_t, const Weights&, const Output&);
  template <std::size_t... Tokens>
  static void tile_of_any(std::index_sequence<Tokens...>, const Panel& panel, std::int64_t first,
                          std::int64_t count, const Weights& w, const Output& out) {
    static constexpr TileOf kTiles[] = {tile_of<static_cast<int>(Tokens) + 1>...};
    kTiles[count - 1](panel, first, w, out);
  }
  static void tile(const Panel& panel, std::int64_t first, std::int64_t count, const Weights& w,
                   const Output& out) {
    tile_of_any(std::make_index_sequence<kTile>{}, panel, first, count, w, out);
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
