#pragma once

#include "../packed.h"
#include "tessera/kernels/int8.h"
#include "vector.h"

// int8_gemm for an instruction set `Isa`, which says how four columns of a token and of sixteen
// weight rows (a quad) are laid out for its multiply-and-add:
//     kTokenBytes, token(codes, to)       four codes of a token, as they are broadcast
//     Quad, expand(codes), read(), write()  the 64 bytes of packed weights in registers
//     add(quad, token, sums)              adds the products of one token to its sixteen sums
//     kTokenOffset                        what token() adds to every code; taken off at the end
// A lane of the sums is an output row. Columns are cut into strips; between two of them the sums
// stand in `out` as integers.
namespace tessera::kernels::cpu {
namespace {

constexpr int kRows = static_cast<int>(kRowsPerBlock);

struct Int8Product {
  const std::int8_t* codes;
  const float* scale;
  std::int64_t tokens;
  Int8Weights weights;
  Rows outputs;
  float* out;
  std::int64_t out_stride;

  std::int64_t quads() const { return (weights.columns + 3) / 4; }
  const std::int8_t* block(std::int64_t row) const { return weights.codes + row * quads() * 4; }
};

/// Quads [first, last) of the columns.
struct QuadStrip {
  std::int64_t first, last;
  bool is_first, is_last;
};

template <class Isa>
class Int8Gemm {
 public:
  static void run(const Int8Product& p) {
    if (p.tokens <= 4) {
      few(p);
    } else {
      many(p);
    }
  }

 private:
  static constexpr std::int64_t kFewQuads = 1024, kManyQuads = 128;
  static constexpr int kTile = 6;  // tokens whose sums stay in registers
  static constexpr std::int64_t kPanelTokens = 96;
  static constexpr int kVectors = Isa::kVectors;
  using Sums = typename Isa::Sums;

  template <class F>
  static void for_strips(const Int8Product& p, std::int64_t length, const F& f) {
    for (std::int64_t first = 0; first < p.quads(); first += length) {
      const std::int64_t last = p.quads() - first < length ? p.quads() : first + length;
      f(QuadStrip{first, last, first == 0, last == p.quads()});
    }
  }

  /// [quad][token of the tile]; tokens that the tile lacks are zeros.
  static void prepare(const Int8Product& p, const QuadStrip& s, std::int64_t first,
                      std::int64_t count, int tile, char* panel) {
    for (int t = 0; t < tile; ++t) {
      char* to = panel + t * Isa::kTokenBytes;
      const std::int8_t* from = p.codes + (first + t) * p.weights.columns;
      for (std::int64_t q = s.first; q < s.last; ++q, to += tile * Isa::kTokenBytes) {
        std::int8_t quad[4] = {};
        const std::int64_t left = p.weights.columns - 4 * q;
        if (t < count && left >= 4) {
          __builtin_memcpy(quad, from + 4 * q, 4);
        } else if (t < count) {
          for (std::int64_t i = 0; i < left; ++i) quad[i] = from[4 * q + i];
        }
        Isa::token(quad, to);
      }
    }
  }

  static void few(const Int8Product& p) {
    alignas(64) char panel[kFewQuads * Isa::kTokenBytes * 4];
    for_strips(p, kFewQuads, [&](const QuadStrip& s) {
      const int tokens = static_cast<int>(p.tokens);
      prepare(p, s, 0, tokens, tokens, panel);
      for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += kRows) {
        const auto quad = [&](std::int64_t q) {
          return Isa::expand(p.block(row) + (s.first + q) * kRows * 4);
        };
        if (tokens == 1) tile<1>(p, s, row, 0, 1, panel, quad);
        if (tokens == 2) tile<2>(p, s, row, 0, 2, panel, quad);
        if (tokens == 3) tile<3>(p, s, row, 0, 3, panel, quad);
        if (tokens == 4) tile<4>(p, s, row, 0, 4, panel, quad);
      }
    });
  }

  static void many(const Int8Product& p) {
    alignas(64) char panel[kManyQuads * Isa::kTokenBytes * kPanelTokens];
    alignas(64) char weights[kManyQuads * sizeof(typename Isa::Quad)];
    for_strips(p, kManyQuads, [&](const QuadStrip& s) {
      const std::int64_t quads = s.last - s.first;
      for (std::int64_t first = 0; first < p.tokens; first += kPanelTokens) {
        const std::int64_t count =
            p.tokens - first < kPanelTokens ? p.tokens - first : kPanelTokens;
        for (std::int64_t t = 0; t < count; t += kTile) {
          prepare(p, s, first + t, count - t, kTile, panel + t * quads * Isa::kTokenBytes);
        }
        for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += kRows) {
          for (std::int64_t q = 0; q < quads; ++q) {
            Isa::write(weights + q * static_cast<std::int64_t>(sizeof(typename Isa::Quad)),
                       Isa::expand(p.block(row) + (s.first + q) * kRows * 4));
          }
          const auto quad = [&](std::int64_t q) {
            return Isa::read(weights + q * static_cast<std::int64_t>(sizeof(typename Isa::Quad)));
          };
          for (std::int64_t t = 0; t < count; t += kTile) {
            tile<kTile>(p, s, row, first + t, count - t < kTile ? count - t : kTile,
                        panel + t * quads * Isa::kTokenBytes, quad);
          }
        }
      }
    });
  }

  /// Adds a strip's products of `Tokens` tokens, of which `count` exist, with the sixteen rows.
  template <int Tokens, class Weights>
  TESSERA_KERNELS_INLINE static void tile(const Int8Product& p, const QuadStrip& s,
                                          std::int64_t row, std::int64_t first, std::int64_t count,
                                          const char* tokens, const Weights& quad) {
    Sums sums[Tokens][kVectors] = {}, weight_sums[kVectors] = {};
    for (std::int64_t q = 0; q < s.last - s.first; ++q) {
      const typename Isa::Quad weights = quad(q);
      if constexpr (Isa::kTokenOffset != 0) Isa::add_weights(weights, weight_sums);
      Isa::template add<Tokens>(weights, tokens, sums);
      tokens += Tokens * Isa::kTokenBytes;
    }
    const std::int64_t rows = p.outputs.last - row < kRows ? p.outputs.last - row : kRows;
    alignas(64) std::int32_t integers[Tokens][kRows], offsets[kRows];
    for (int v = 0; v < kVectors; ++v) write(offsets + v * kRows / kVectors, weight_sums[v]);
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        write(integers[t] + v * kRows / kVectors, sums[t][v]);
      }
    }
    for (int t = 0; t < count; ++t) {
      for (int r = 0; r < kRows; ++r) integers[t][r] -= Isa::kTokenOffset * offsets[r];
      store(p, s, first + t, row, rows, integers[t]);
    }
  }

  static void store(const Int8Product& p, const QuadStrip& s, std::int64_t token, std::int64_t row,
                    std::int64_t rows, const std::int32_t* sums) {
    float* out = p.out + token * p.out_stride + row;
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int32_t sum = 0;
      if (!s.is_first) __builtin_memcpy(&sum, out + r, 4);
      sum += sums[r];
      const float product = p.scale[token] * p.weights.scale[row + r] * static_cast<float>(sum);
      if (s.is_last) {
        out[r] = product;
      } else {
        __builtin_memcpy(out + r, &sum, 4);
      }
    }
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
