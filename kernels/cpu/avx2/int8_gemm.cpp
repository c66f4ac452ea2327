#include "../simd/int8_gemm.h"

#include <immintrin.h>

#include "avx2.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

/// Of four columns as 16-bit numbers: columns 0 and 2, or 1 and 3. Shifts alone make them.
TESSERA_KERNELS_INLINE __m256i even_columns(__m256i bytes) {
  return _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
}
TESSERA_KERNELS_INLINE __m256i odd_columns(__m256i bytes) { return _mm256_srai_epi16(bytes, 8); }

/// Few tokens. Codes as 16-bit numbers for vpmaddwd, whose sums of two products are exact.
/// vpmaddubsw takes bytes, but needs the signs moved from the tokens to the weights first, and its
/// 16-bit sums widened afterwards: as many instructions for as many products.
struct Int8Avx2 {
  using Vector = __m256i;
  static constexpr int kVectors = 2, kSteps = 2, kTokenOffset = 0;

  /// Even columns of the quad in the first step, odd ones in the second.
  TESSERA_KERNELS_INLINE static void tokens(const std::int8_t* codes, char* to, std::int64_t next) {
    std::int32_t four;
    __builtin_memcpy(&four, codes, 4);
    const __m128i wide = _mm_cvtepi8_epi16(_mm_cvtsi32_si128(four));
    const __m128i order = _mm_shufflelo_epi16(wide, _MM_SHUFFLE(3, 1, 2, 0));
    const std::int32_t first = _mm_cvtsi128_si32(order), second = _mm_extract_epi32(order, 1);
    __builtin_memcpy(to, &first, 4);
    __builtin_memcpy(to + next, &second, 4);
  }
  template <int Step>
  TESSERA_KERNELS_INLINE static void weights(const std::int8_t* codes, Vector* to) {
    for (int v = 0; v < 2; ++v) {
      const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes) + v);
      to[v] = Step == 0 ? even_columns(bytes) : odd_columns(bytes);
    }
  }
  TESSERA_KERNELS_INLINE static Vector add(Vector sums, Vector weights, std::int32_t token) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(weights, _mm256_set1_epi32(token)));
    // GCC would add the products of two steps to each other first, and run out of registers.
    asm("" : "+x"(sums));
    return sums;
  }
};

/// Many tokens, by Winograd's form of the inner product ("A new algorithm for inner product",
/// 1968):
///     a0 w0 + a1 w1 = (a0 + w1) (a1 + w0) - a0 a1 - w0 w1.
/// Two vpaddw, one vpmaddwd and one vpaddd make 32 products, as many instructions as two vpmaddwd
/// and two vpaddd; but half as many of them need a multiplier, and there are two multipliers and
/// four adders. What is subtracted depends on the token or on the weights alone and is summed up
/// where they are laid out. All is exact modulo 2^32, and so is a result that fits 32 bits.
class ManyTokens {
 public:
  static void run(const Int8Product& p) {
    alignas(64) char panel[kPanelTokens * kStripQuads * kQuadBytes];
    alignas(64) std::int32_t products[kPanelTokens];
    RowBlock block;
    for (std::int64_t first = 0; first < p.quads(); first += kStripQuads) {
      const std::int64_t last = p.quads() - first < kStripQuads ? p.quads() : first + kStripQuads;
      const QuadStrip s{first, last, first == 0, last == p.quads()};
      for (std::int64_t token = 0; token < p.tokens; token += kPanelTokens) {
        const std::int64_t count =
            p.tokens - token < kPanelTokens ? p.tokens - token : kPanelTokens;
        for (std::int64_t t = 0; t < count; t += kTile) {
          lay_out_tokens(p, s, token + t, panel + t * kStripQuads * kQuadBytes, products + t);
        }
        for (std::int64_t row = p.outputs.first; row < p.outputs.last; row += kRows) {
          lay_out_weights(p, s, row, &block);
          const std::int64_t next = row + kRows < p.outputs.last ? row + kRows : p.outputs.first;
          const std::int8_t* ahead = p.block(next) + s.first * kRows * 4;
          for (std::int64_t t = 0; t < count; t += kTile, ahead += 3 * 64) {
            for (int line = 0; line < 3; ++line) __builtin_prefetch(ahead + line * 64);
            tile(p, s, block, token + t, panel + t * kStripQuads * kQuadBytes, products + t);
          }
        }
      }
    }
  }

 private:
  // A strip of a block takes 22 KiB, which leaves the tokens of a tile room in the first-level
  // cache; the panel takes 352 KiB of the second-level one.
  static constexpr std::int64_t kStripQuads = 176, kPanelTokens = 256;
  static constexpr int kTile = 4, kVectors = 2, kQuadBytes = 8;

  /// The strip of 16 rows, [quad][8 rows][odd columns, even columns].
  struct RowBlock {
    __m256i weights[kStripQuads * kVectors * 2];
    __m256i products[kVectors];  ///< sums of w0 w1
    alignas(32) float scale[kRows];
    std::int64_t first, count;  ///< rows; those beyond are zeros
  };

  /// 32 bytes of a row of codes from column `k` on; zeros behind its end.
  TESSERA_KERNELS_INLINE static __m256i load_codes(const std::int8_t* row, std::int64_t k,
                                                   std::int64_t columns) {
    if (columns - k >= 32) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + k));
    alignas(32) std::int8_t bytes[32] = {};
    if (k < columns) __builtin_memcpy(bytes, row + k, static_cast<std::size_t>(columns - k));
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
  }

  /// A tile of tokens, [quad][token][even columns, odd columns]; `products`: their sums of a0 a1.
  /// The last token stands for those that there are not.
  static void lay_out_tokens(const Int8Product& p, const QuadStrip& s, std::int64_t token,
                             char* panel, std::int32_t* products) {
    for (int pair = 0; pair < kTile; pair += 2) {
      const std::int8_t* row[2];
      for (int t = 0; t < 2; ++t) {
        const std::int64_t at = token + pair + t;
        row[t] = p.codes + (at < p.tokens ? at : p.tokens - 1) * p.weights.columns;
      }
      lay_out_pair(p, s, row, panel + pair * kQuadBytes, products + pair);
    }
  }

  static void lay_out_pair(const Int8Product& p, const QuadStrip& s,
                           const std::int8_t* const (&row)[2], char* panel,
                           std::int32_t* products) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (std::int64_t q = s.first; q < s.last; q += 8) {
      __m256i low[2], high[2];  // quads 0, 1, 4, 5 and 2, 3, 6, 7
      for (int t = 0; t < 2; ++t) {
        const __m256i bytes = load_codes(row[t], 4 * q, p.weights.columns);
        const __m256i even = even_columns(bytes), odd = odd_columns(bytes);
        sums[t] = _mm256_add_epi32(sums[t], _mm256_madd_epi16(even, odd));
        low[t] = _mm256_unpacklo_epi32(even, odd);
        high[t] = _mm256_unpackhi_epi32(even, odd);
      }
      const __m256i quads[4] = {
          _mm256_unpacklo_epi64(low[0], low[1]), _mm256_unpackhi_epi64(low[0], low[1]),
          _mm256_unpacklo_epi64(high[0], high[1]), _mm256_unpackhi_epi64(high[0], high[1])};
      for (int i = 0; i < 4; ++i, panel += kTile * kQuadBytes) {
        _mm_store_si128(reinterpret_cast<__m128i*>(panel), _mm256_castsi256_si128(quads[i]));
        _mm_store_si128(reinterpret_cast<__m128i*>(panel + 4 * kTile * kQuadBytes),
                        _mm256_extracti128_si256(quads[i], 1));
      }
      panel += 4 * kTile * kQuadBytes;
    }
    for (int t = 0; t < 2; ++t) products[t] = sum_of(sums[t]);
  }

  static std::int32_t sum_of(__m256i v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }

  static void lay_out_weights(const Int8Product& p, const QuadStrip& s, std::int64_t row,
                              RowBlock* block) {
    block->first = row;
    block->count = p.outputs.last - row < kRows ? p.outputs.last - row : kRows;
    for (int r = 0; r < kRows; ++r) {
      block->scale[r] = r < block->count ? p.weights.scale[row + r] : 0;
    }
    const auto* codes = reinterpret_cast<const __m256i*>(p.block(row) + s.first * 64);
    __m256i* to = block->weights;
    __m256i sums[kVectors] = {};
    for (std::int64_t q = s.first; q < s.last; ++q) {
      for (int v = 0; v < kVectors; ++v, ++codes, to += 2) {
        to[0] = odd_columns(*codes);
        to[1] = even_columns(*codes);
        sums[v] = _mm256_add_epi32(sums[v], _mm256_madd_epi16(to[0], to[1]));
      }
    }
    for (int v = 0; v < kVectors; ++v) block->products[v] = sums[v];
  }

  /// A tile of tokens and a block of rows.
  static void tile(const Int8Product& p, const QuadStrip& s, const RowBlock& block,
                   std::int64_t token, const char* tokens, const std::int32_t* products) {
    float* out = p.out + token * p.out_stride + block.first;
    const std::int64_t count = p.tokens - token < kTile ? p.tokens - token : kTile;
    if (count == kTile && block.count == kRows) {
      add_up(s, block, tokens, products, p.scale + token, out, p.out_stride);
      return;
    }
    float all[kTile][kRows] = {}, scale[kTile] = {};
    const auto bytes = static_cast<std::size_t>(block.count) * 4;
    for (int t = 0; t < count; ++t) {
      scale[t] = p.scale[token + t];
      if (!s.is_first) __builtin_memcpy(all[t], out + t * p.out_stride, bytes);
    }
    add_up(s, block, tokens, products, scale, all[0], kRows);
    for (int t = 0; t < count; ++t) __builtin_memcpy(out + t * p.out_stride, all[t], bytes);
  }

  TESSERA_KERNELS_INLINE static __m256i broadcast(const void* pair) {
    std::int32_t bits;
    __builtin_memcpy(&bits, pair, 4);
    return _mm256_set1_epi32(bits);
  }

  /// A whole tile. Between two strips its sums stand in `out` as integers. A function of its own:
  /// inlined, GCC 12 keeps the sums in memory.
  [[gnu::noinline]] static void add_up(const QuadStrip& s, const RowBlock& block,
                                       const char* tokens, const std::int32_t* products,
                                       const float* scale, float* out, std::int64_t out_stride) {
    __m256i sums[kTile][kVectors];
#pragma GCC unroll 4
    for (int t = 0; t < kTile; ++t) {
      const float* from = out + t * out_stride;
      // Rows of the output are far apart: those of the next tile are fetched ahead.
      __builtin_prefetch(from + kTile * out_stride, 1);
      __builtin_prefetch(from + kTile * out_stride + kRows - 1, 1);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const auto* at = reinterpret_cast<const __m256i*>(from + 8 * v);
        const __m256i before = s.is_first ? _mm256_setzero_si256() : _mm256_loadu_si256(at);
        const __m256i off = _mm256_add_epi32(block.products[v], broadcast(products + t));
        sums[t][v] = _mm256_sub_epi32(before, off);
      }
    }
    const __m256i* weights = block.weights;
    for (std::int64_t quads = s.last - s.first; quads > 0; --quads) {
      __m256i w[2 * kVectors];
#pragma GCC unroll 4
      for (int i = 0; i < 2 * kVectors; ++i) {
        w[i] = weights[i];
        asm("" : "+x"(w[i]));  // read once
      }
#pragma GCC unroll 4
      for (int t = 0; t < kTile; ++t) {
        __m256i even = broadcast(tokens + t * kQuadBytes);
        __m256i odd = broadcast(tokens + t * kQuadBytes + 4);
        asm("" : "+x"(even), "+x"(odd));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const __m256i pairs = _mm256_madd_epi16(_mm256_add_epi16(even, w[2 * v]),
                                                  _mm256_add_epi16(odd, w[2 * v + 1]));
          // sums += pairs. GCC would move the sums from register to register, or add the pairs of
          // two steps to each other first.
          asm("vpaddd %1, %0, %0" : "+x"(sums[t][v]) : "x"(pairs));
        }
      }
      weights += 2 * kVectors;
      tokens += kTile * kQuadBytes;
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTile; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* to = out + t * out_stride + 8 * v;
        if (s.is_last) {
          const __m256 factor =
              _mm256_mul_ps(_mm256_set1_ps(scale[t]), _mm256_load_ps(block.scale + 8 * v));
          _mm256_storeu_ps(to, _mm256_mul_ps(factor, _mm256_cvtepi32_ps(sums[t][v])));
        } else {
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sums[t][v]);
        }
      }
    }
  }
};

}  // namespace

void int8_gemm(const Int8Product& product) {
  if (product.tokens <= Int8Gemm<Int8Avx2>::kFew) {
    Int8Gemm<Int8Avx2>::few(product);
  } else {
    ManyTokens::run(product);
  }
}

}  // namespace tessera::kernels::cpu::avx2
