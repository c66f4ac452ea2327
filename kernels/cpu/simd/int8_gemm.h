#pragma once

#include "../packed.h"
#include "tessera/kernels/int8.h"
#include "vector.h"

// int8_gemm for an instruction set `Isa`, which says how its multiply-and-add wants four columns (a
// quad) of a token and of sixteen weight rows. It takes a quad in kSteps steps of four bytes:
//     tokens(codes, to, next)   the four bytes of a token for every step, `next` bytes apart
//     weights<Step>(codes, to)  the weights of a step, from the 64 bytes of a packed quad
//     add(sums, weights, token) adds the products of a step to the sums
//     kTokenOffset              what tokens() adds to every code; taken off at the end
// A lane of the sums is an output row. Columns are cut into strips; between two of them the sums
// stand in `out` as integers.
namespace tessera::kernels::cpu {
namespace {

/// Quads [first, last) of the columns.
struct QuadStrip {
  std::int64_t first, last;
  bool is_first, is_last;
};

template <class Isa>
class Int8Gemm {
 public:
  static constexpr std::int64_t kFew = 4;  // tokens

  static void run(const Int8Product& p) {
    if (p.tokens <= kFew) {
      few(p);
    } else {
      many(p);
    }
  }

  static void few(const Int8Product& p) {
    alignas(64) char panel[kFewQuads * kQuadBytes * 4];
    for_strips(p, kFewQuads, [&](const QuadStrip& s) {
      const int tokens = static_cast<int>(p.tokens);
      prepare(p, s, 0, tokens, tokens, panel);
      for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += kRows) {
        if (tokens == 1) few_tile<1>(p, s, row, panel);
        if (tokens == 2) few_tile<2>(p, s, row, panel);
        if (tokens == 3) few_tile<3>(p, s, row, panel);
        if (tokens == 4) few_tile<4>(p, s, row, panel);
      }
    });
  }

 private:
  // A long strip, so that the sums seldom go through `out`; its panel of 96 tokens, 295 kB in 16
  // bits, stays in the second-level cache.
  static constexpr std::int64_t kFewQuads = 1024, kManyQuads = 384;
  static constexpr int kTile = 6;  // tokens whose sums stay in registers
  static constexpr std::int64_t kPanelTokens = 16 * kTile;
  static constexpr int kVectors = Isa::kVectors, kQuadBytes = 4 * Isa::kSteps;
  using Vector = typename Isa::Vector;

  template <class F>
  static void for_strips(const Int8Product& p, std::int64_t length, const F& f) {
    for (std::int64_t first = 0; first < p.quads(); first += length) {
      const std::int64_t last = p.quads() - first < length ? p.quads() : first + length;
      f(QuadStrip{first, last, first == 0, last == p.quads()});
    }
  }

  /// [quad][step][token of the tile]; tokens that the tile lacks are zeros.
  static void prepare(const Int8Product& p, const QuadStrip& s, std::int64_t first,
                      std::int64_t count, int tile, char* panel) {
    for (int t = 0; t < tile; ++t) {
      char* to = panel + t * 4;
      const std::int8_t* from = p.codes + (first + t) * p.weights.columns;
      for (std::int64_t q = s.first; q < s.last; ++q, to += tile * kQuadBytes) {
        const std::int64_t left = p.weights.columns - 4 * q;
        if (t < count && left >= 4) {
          Isa::tokens(from + 4 * q, to, tile * 4);
          continue;
        }
        std::int8_t quad[4] = {};
        for (std::int64_t i = 0; t < count && i < left; ++i) quad[i] = from[4 * q + i];
        Isa::tokens(quad, to, tile * 4);
      }
    }
  }

  /// The weights go from memory to the registers.
  template <int Tokens>
  static void few_tile(const Int8Product& p, const QuadStrip& s, std::int64_t row,
                       const char* tokens) {
    const std::int8_t* codes = p.block(row) + s.first * kRows * 4;
    Vector sums[Tokens][kVectors] = {}, weight_sums[kVectors] = {};
    for (std::int64_t q = s.first; q < s.last; ++q, codes += kRows * 4) {
      Vector weights[kVectors];
      Isa::template weights<0>(codes, weights);
      add_step(weights, tokens, sums, weight_sums);
      tokens += Tokens * 4;
      if constexpr (Isa::kSteps == 2) {
        Isa::template weights<1>(codes, weights);
        add_step(weights, tokens, sums, weight_sums);
        tokens += Tokens * 4;
      }
    }
    finish(p, s, row, 0, Tokens, sums, weight_sums);
  }

  /// The weights of a strip are laid out for all tokens of a panel.
  static void many(const Int8Product& p) {
    alignas(64) char panel[kManyQuads * kQuadBytes * kPanelTokens];
    alignas(64) Vector weights[kManyQuads * Isa::kSteps * kVectors];
    for_strips(p, kManyQuads, [&](const QuadStrip& s) {
      const std::int64_t quads = s.last - s.first;
      for (std::int64_t first = 0; first < p.tokens; first += kPanelTokens) {
        const std::int64_t count =
            p.tokens - first < kPanelTokens ? p.tokens - first : kPanelTokens;
        for (std::int64_t t = 0; t < count; t += kTile) {
          prepare(p, s, first + t, count - t, kTile, panel + t * quads * kQuadBytes);
        }
        for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += kRows) {
          const std::int8_t* codes = p.block(row) + s.first * kRows * 4;
          for (std::int64_t q = 0; q < quads; ++q, codes += kRows * 4) {
            Vector* to = weights + q * Isa::kSteps * kVectors;
            Isa::template weights<0>(codes, to);
            if constexpr (Isa::kSteps == 2) Isa::template weights<1>(codes, to + kVectors);
          }
          for (std::int64_t t = 0; t < count; t += kTile) {
            many_tile(p, s, row, first + t, count - t < kTile ? count - t : kTile, weights,
                      panel + t * quads * kQuadBytes);
          }
        }
      }
    });
  }

  /// A function of its own: inlined, GCC 12 keeps half of the sums in memory.
  [[gnu::noinline]] static void many_tile(const Int8Product& p, const QuadStrip& s,
                                          std::int64_t row, std::int64_t first, std::int64_t count,
                                          const Vector* weights, const char* tokens) {
    Vector sums[kTile][kVectors] = {}, weight_sums[kVectors] = {};
    // Rows of the output are far apart; it is long until finish() needs them.
    for (int t = 0; t < count; ++t) __builtin_prefetch(p.out + (first + t) * p.out_stride + row, 1);
    for (std::int64_t quad = s.last - s.first; quad > 0; --quad) {
#pragma GCC unroll 2
      for (int step = 0; step < Isa::kSteps; ++step) {
        add_step(weights + step * kVectors, tokens + step * kTile * 4, sums, weight_sums);
      }
      weights += Isa::kSteps * kVectors;
      tokens += Isa::kSteps * kTile * 4;
    }
    finish(p, s, row, first, count, sums, weight_sums);
  }

  template <int Tokens>
  TESSERA_KERNELS_INLINE static void add_step(const Vector* weights, const char* tokens,
                                              Vector (&sums)[Tokens][kVectors],
                                              Vector (&weight_sums)[kVectors]) {
    Vector w[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) w[v] = weights[v];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors && Isa::kTokenOffset != 0; ++v) {
      weight_sums[v] = Isa::add(weight_sums[v], w[v], 0x01010101);
    }
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
      std::int32_t token;
      __builtin_memcpy(&token, tokens + t * 4, 4);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = Isa::add(sums[t][v], w[v], token);
    }
  }

  /// Adds the sums of the `count` tokens that there are to the output.
  template <int Tokens>
  TESSERA_KERNELS_INLINE static void finish(const Int8Product& p, const QuadStrip& s,
                                            std::int64_t row, std::int64_t first,
                                            std::int64_t count,
                                            const Vector (&sums)[Tokens][kVectors],
                                            const Vector (&weight_sums)[kVectors]) {
    alignas(64) std::int32_t integers[Tokens][kRows], offsets[kRows];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) write(offsets + v * kRows / kVectors, weight_sums[v]);
#pragma GCC unroll 8
    for (int t = 0; t < Tokens; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) write(integers[t] + v * kRows / kVectors, sums[t][v]);
    }
    for (int t = 0; t < count; ++t) {
      for (int r = 0; r < kRows; ++r) integers[t][r] -= Isa::kTokenOffset * offsets[r];
      store(p, s, first + t, row, integers[t]);
    }
  }

  TESSERA_KERNELS_INLINE static void store(const Int8Product& p, const QuadStrip& s,
                                           std::int64_t token, std::int64_t row,
                                           const std::int32_t* sums) {
    // The compiler turns a copy of a known length into two instructions.
    if (p.outputs.last - row >= kRows) {
      store_rows(p, s, token, row, sums, kRows * 4);
    } else {
      store_rows(p, s, token, row, sums, static_cast<std::size_t>(p.outputs.last - row) * 4);
    }
  }

  TESSERA_KERNELS_INLINE static void store_rows(const Int8Product& p, const QuadStrip& s,
                                                std::int64_t token, std::int64_t row,
                                                const std::int32_t* sums, std::size_t bytes) {
    float* out = p.out + token * p.out_stride + row;
    alignas(64) std::int32_t total[kRows] = {};
    alignas(64) float scale[kRows] = {};
    if (!s.is_first) __builtin_memcpy(total, out, bytes);
    for (int r = 0; r < kRows; ++r) total[r] += sums[r];
    if (!s.is_last) {
      __builtin_memcpy(out, total, bytes);
      return;
    }
    __builtin_memcpy(scale, p.weights.scale + row, bytes);
    const float token_scale = p.scale[token];
    for (int r = 0; r < kRows; ++r) {
      scale[r] = token_scale * scale[r] * static_cast<float>(total[r]);
    }
    __builtin_memcpy(out, scale, bytes);
  }
};

}  // namespace
}  // namespace tessera::kernels::cpu
