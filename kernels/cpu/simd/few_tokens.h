#pragma once

#include "sources.h"

// Few tokens: the weights go from the registers into the sums. Some blocks of rows go side by side,
// which keeps the multipliers busy although each sum runs in the order of the columns.
namespace tessera::kernels::cpu {
namespace {

template <class Source, class Isa, int Tokens>
class FewTokens {
 public:
  static void run(Matrix x, const Source& w, Rows outputs, float* out, std::int64_t out_stride) {
    // The longer a strip is, the longer are the runs of weights that are read in order; but one
    // that fills the panel leaves no room in the first-level cache, so strips are of one length.
    Panel panel;
    Strips strips(w.groups(), kUnit, kStripColumns);
    for (bool first = true; strips.next(&panel.strip); first = false) {
      prepare(x, &panel);
      std::int64_t row = outputs.first;
      const Output to{out, out_stride, outputs.last, first};
      if constexpr (kMost >= 4) {
        for (; row + 3 * kRows < outputs.last; row += 4 * kRows) blocks<4>(w, row, panel, to);
      }
      if constexpr (kMost >= 2) {
        for (; row + kRows < outputs.last; row += 2 * kRows) blocks<2>(w, row, panel, to);
      }
      for (; row < outputs.last; row += kRows) blocks<1>(w, row, panel, to);
    }
  }

 private:
  using Floats = typename Simd<Isa::kLanes>::Floats;
  static constexpr int kVectors = Source::kVectors, kUnit = Source::kUnit;
  static constexpr int kMost = Isa::kSums / (Tokens * kVectors);  // blocks side by side
  static constexpr int kStripColumns = 8192 / Tokens / 32 * 32;
  static constexpr std::int64_t kAhead = 2048;  // bytes that the weights are fetched ahead

  /// Activations over a strip, divided by excess(): x[column * Tokens + token].
  struct Panel {
    Strip strip;
    alignas(64) float x[kStripColumns * Tokens];
    float sums[kMaxSegments * Tokens];
  };
  struct Output {
    float* data;
    std::int64_t stride, rows;
    bool first;
  };

  static void prepare(Matrix x, Panel* panel) {
    alignas(64) float row[kSegmentColumns + 64];
    for (int i = 0; i < panel->strip.num_segments; ++i) {
      const Segment& s = panel->strip.segments[i];
      for (int t = 0; t < Tokens; ++t) {
        load_segment<Isa>(x, t, s, row);
        if constexpr (Source::kGrouped) {
          panel->sums[i * Tokens + t] = sum_of<Isa>(row, s.columns);
        } else {
          panel->sums[i * Tokens + t] = 0;
        }
        for (std::int64_t unit = 0; unit < s.units; ++unit) {
          float* to = panel->x + (s.at + unit * kUnit) * Tokens + t;
          for (int c = 0; c < kUnit; ++c) {
            to[c * Tokens] = row[unit * kUnit + c] * (1 / Source::excess(c));
          }
        }
      }
    }
  }

  template <int Blocks>
  using Sums = Floats[Blocks][Tokens][kVectors];

  template <int Blocks>
  [[gnu::noinline]] static void blocks(const Source& w, std::int64_t row, const Panel& panel,
                                       const Output& out) {
    Sums<Blocks> total;
    for (int b = 0; b < Blocks; ++b) load(out, row + b * kRows, total[b]);
    const Strip& strip = panel.strip;
    const std::int64_t stride = w.block_bytes();
    const char* base = w.block(row / kRows) + strip.segments[0].first_unit * Source::kUnitBytes;
    const std::int64_t length = strip.columns / kUnit * Source::kUnitBytes;
    std::int64_t offset = 0;
    for (int i = 0; i < strip.num_segments; ++i) {
      const Segment& s = strip.segments[i];
      const float* sums = panel.sums + i * Tokens;
      Group<Isa> groups[Blocks];
      Sums<Blocks> part;
      for (int b = 0; b < Blocks; ++b) {
        if constexpr (Source::kGrouped) w.prefetch_group(row / kRows + b + Blocks, s.group);
        groups[b] = w.group(row / kRows + b, s.group);
        for (int t = 0; t < Tokens; ++t) {
          for (int v = 0; v < kVectors; ++v)
            part[b][t][v] = groups[b].shift[v] * all<Floats>(sums[t]);
        }
      }
      const float* x = panel.x + s.at * Tokens;
      const auto next = [&] {
        // What comes next in these blocks, or in those that follow them.
        std::int64_t ahead = offset + kAhead;
        ahead += ahead < length ? 0 : Blocks * stride - length;
        for (int b = 0; b < Blocks; ++b) __builtin_prefetch(base + b * stride + ahead);
        add_unit<Blocks>(base + offset, stride, x, part);
        offset += Source::kUnitBytes;
        x += kUnit * Tokens;
      };
      std::int64_t unit = 0;
      if constexpr (kUnit == 1) {
        for (; unit + 4 <= s.units; unit += 4) {
#pragma GCC unroll 4
          for (int n = 0; n < 4; ++n) next();
        }
      }
      for (; unit < s.units; ++unit) next();
      for (int b = 0; b < Blocks; ++b) {
        for (int t = 0; t < Tokens; ++t) {
          for (int v = 0; v < kVectors; ++v) {
            total[b][t][v] = Isa::fma(groups[b].scale[v], part[b][t][v], total[b][t][v]);
            if (w.has_minima()) {
              total[b][t][v] = Isa::fma(groups[b].minimum[v], all<Floats>(sums[t]), total[b][t][v]);
            }
          }
        }
      }
    }
    for (int b = 0; b < Blocks; ++b) store(out, row + b * kRows, total[b]);
  }

  template <int Blocks>
  TESSERA_KERNELS_INLINE static void add_unit(const char* at, std::int64_t stride, const float* x,
                                              Sums<Blocks>& part) {
    typename Source::Unit units[Blocks];
    for (int b = 0; b < Blocks; ++b) Source::read_unit(at + b * stride, &units[b]);
#pragma GCC unroll 32
    for (int c = 0; c < kUnit; ++c) {
#pragma GCC unroll 4
      for (int b = 0; b < Blocks; ++b) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          const Floats numbers = Source::number(units[b], v, c);
#pragma GCC unroll 4
          for (int t = 0; t < Tokens; ++t) {
            part[b][t][v] = Isa::fma(numbers, all<Floats>(x[c * Tokens + t]), part[b][t][v]);
          }
        }
      }
    }
  }

  static std::int64_t rows_of(const Output& out, std::int64_t row) {
    return out.rows - row < kRows ? out.rows - row : kRows;
  }
  TESSERA_KERNELS_INLINE static void load(const Output& out, std::int64_t row,
                                          Floats (&total)[Tokens][kVectors]) {
    for (int t = 0; t < Tokens; ++t) {
      alignas(64) float values[kRows] = {};
      if (!out.first) {
        const float* from = out.data + t * out.stride + row;
        for (std::int64_t r = 0; r < rows_of(out, row); ++r) values[r] = from[r];
      }
      for (int v = 0; v < kVectors; ++v) total[t][v] = read<Floats>(values + v * Isa::kLanes);
    }
  }
  TESSERA_KERNELS_INLINE static void store(const Output& out, std::int64_t row,
                                           const Floats (&total)[Tokens][kVectors]) {
    for (int t = 0; t < Tokens; ++t) {
      alignas(64) float values[kRows];
      for (int v = 0; v < kVectors; ++v) write(values + v * Isa::kLanes, total[t][v]);
      float* to = out.data + t * out.stride + row;
      for (std::int64_t r = 0; r < rows_of(out, row); ++r) to[r] = values[r];
    }
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
