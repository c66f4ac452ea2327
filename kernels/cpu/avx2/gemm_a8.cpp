// dequant_gemm_a8: the codes of the weights stay integers.
//
// A lane of 32 bits is an output row, as in dequant_gemm. A step takes up to four columns of a row:
// its bytes hold their codes, which vpmaddubsw multiplies by the four bytes of a token that a
// broadcast from memory brings. Codes of 4 bits give sums of two products of at most 3810, so the
// eight steps of a block add up in 16 bits, where one instruction adds two columns.
#include "tessera/kernels/gemm_a8.h"

#include <immintrin.h>

#include "../packed.h"
#include "../reference/reference.h"
#include "avx2.h"
#include "convert.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

constexpr int kRows = static_cast<int>(kRowsPerBlock), kVectors = kRows / 8;
constexpr int kColumns = static_cast<int>(kActivationBlock);

/// Steps of a unit: codes<Step>() from the unit's words, the columns in its bytes (or 16-bit
/// halves), and widen() from the sums of a block to integers of 32 bits.
template <int Bits>
struct Steps;

template <>
struct Steps<4> {
  static constexpr int kUnitColumns = 8, kUnitWords = 1, kCount = 2;
  static constexpr int column(int step, int byte) { return 2 * byte + step; }
  template <int Step>
  TESSERA_KERNELS_INLINE static __m256i codes(const __m256i* words) {
    const __m256i bits = Step == 0 ? words[0] : _mm256_srli_epi16(words[0], 4);
    return _mm256_and_si256(bits, _mm256_set1_epi8(15));
  }
  TESSERA_KERNELS_INLINE static __m256i add(__m256i sums, __m256i codes, __m256i token) {
    return _mm256_add_epi16(sums, _mm256_maddubs_epi16(codes, token));
  }
  TESSERA_KERNELS_INLINE static __m256i widen(__m256i sums) {
    return _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  }
};

/// Fields 0, 9, 18 and 27 bits up in a word come to bytes by shifts of 0, 1, 1 and 2, the upper two
/// of them one bit up: widen() evens that out. What stands where there is no column meets a token's
/// 0. At most 12 products of 2 * 7 * 127 in 16 bits.
template <>
struct Steps<3> {
  static constexpr int kUnitColumns = 32, kUnitWords = 3, kCount = 10;
  static constexpr int column(int step, int byte) {
    if (step == 9) return byte < 2 ? 30 + byte : -1;
    const int field = step % 3 + 3 * byte;
    return field < 10 ? step / 3 * 10 + field : -1;
  }
  template <int Step>
  TESSERA_KERNELS_INLINE static __m256i codes(const __m256i* words) {
    if constexpr (Step == 9) {  // bits 30 and 31 of the three words
      __m256i both = _mm256_setzero_si256();
      for (int bit = 0; bit < 3; ++bit) {
        const __m256i two = _mm256_srli_epi32(words[bit], 30);
        const __m256i apart = _mm256_and_si256(_mm256_or_si256(two, _mm256_slli_epi32(two, 7)),
                                               _mm256_set1_epi32(0x0101));
        both = _mm256_or_si256(both, _mm256_slli_epi32(apart, bit));
      }
      return both;
    } else {
      const __m256i bits = _mm256_srli_epi32(words[Step / 3], Step % 3 * 3);
      const __m256i first = _mm256_and_si256(bits, _mm256_set1_epi32(7));
      const __m256i middle =
          _mm256_and_si256(_mm256_srli_epi32(bits, 1), _mm256_set1_epi32(7 << 8 | 7 << 17));
      const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 2), _mm256_set1_epi32(7 << 25));
      return _mm256_or_si256(_mm256_or_si256(first, last), middle);
    }
  }
  TESSERA_KERNELS_INLINE static __m256i add(__m256i sums, __m256i codes, __m256i token) {
    return Steps<4>::add(sums, codes, token);
  }
  TESSERA_KERNELS_INLINE static __m256i widen(__m256i sums) {
    return _mm256_srai_epi32(_mm256_madd_epi16(sums, _mm256_set1_epi32(1 << 16 | 2)), 1);
  }
};

/// Codes of 8 bits would saturate vpmaddubsw: both sides become numbers of 16 bits.
template <>
struct Steps<8> {
  static constexpr int kUnitColumns = 4, kUnitWords = 1, kCount = 2;
  static constexpr int column(int step, int half) { return 2 * half + step; }
  template <int Step>
  TESSERA_KERNELS_INLINE static __m256i codes(const __m256i* words) {
    return Step == 0 ? _mm256_and_si256(words[0], _mm256_set1_epi16(255))
                     : _mm256_srli_epi16(words[0], 8);
  }
  TESSERA_KERNELS_INLINE static __m256i add(__m256i sums, __m256i codes, __m256i token) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(codes, token));
  }
  TESSERA_KERNELS_INLINE static __m256i widen(__m256i sums) { return sums; }
};

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

/// Scale, codes (zeros after the last) and their sum of a block of a token.
struct TokenBlock {
  alignas(32) std::int8_t codes[kColumns];
  float scale;
  std::int32_t sum;
};

TESSERA_KERNELS_INLINE void quantise_whole_block(const void* from, Real type, TokenBlock* to) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 x[4], high = _mm256_setzero_ps(), poison = high;
  for (int i = 0; i < 4; ++i) {
    x[i] = load8(at(from, type, 8 * i), type);
    high = _mm256_max_ps(high, _mm256_andnot_ps(sign, x[i]));
    poison = _mm256_fmadd_ps(x[i], _mm256_setzero_ps(), poison);  // 0, or NaN from NaN and Inf
  }
  high = _mm256_add_ps(high, _mm256_andnot_ps(sign, poison));
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(high), _mm256_extractf128_ps(high, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  const float largest = _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
  const bool finite = _mm256_movemask_ps(_mm256_cmp_ps(poison, poison, _CMP_UNORD_Q)) == 0;
  to->scale = finite ? largest / 127 : __builtin_nanf("");
  if (to->scale == 0) to->scale = 1;
  const __m256 step = _mm256_set1_ps(to->scale), limit = _mm256_set1_ps(127);
  __m256i words[4];
  for (int i = 0; i < 4; ++i) {
    // The second one where the first is NaN; the conversion rounds to nearest.
    const __m256 low = _mm256_max_ps(_mm256_div_ps(x[i], step), _mm256_xor_ps(limit, sign));
    words[i] = _mm256_cvtps_epi32(_mm256_min_ps(low, limit));
  }
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(words[0], words[1]),
                                           _mm256_packs_epi32(words[2], words[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i codes = _mm256_permutevar8x32_epi32(bytes, order);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to->codes), codes);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
  const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
  to->sum = _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
}

TESSERA_KERNELS_INLINE void quantise_block(const void* from, Real type, std::int64_t count,
                                           TokenBlock* to) {
  if (count == kColumns) {
    quantise_whole_block(from, type, to);
    return;
  }
  reference::quantise_row({from, type, count}, nullptr, to->codes, &to->scale);
  to->sum = 0;
  for (std::int64_t i = 0; i < kColumns; ++i) {
    if (i >= count) to->codes[i] = 0;
    to->sum += to->codes[i];
  }
}

template <int Bits, bool Symmetric>
class GemmA8 {
 public:
  static void run(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                  std::int64_t out_stride) {
    const PackedLayout& l = w.layout;
    const std::int64_t blocks = Walk::blocks(l, w.columns);
    const std::int64_t most = x.rows < kPanelTokens ? x.rows : kPanelTokens;
    const std::int64_t strip = kPanelBlocks / most;
    Panel panel;
    for (std::int64_t first = 0; first < blocks; first += strip) {
      panel.first = first;
      panel.blocks = blocks - first < strip ? blocks - first : strip;
      for (std::int64_t token = 0; token < x.rows; token += kPanelTokens) {
        const std::int64_t count = x.rows - token < kPanelTokens ? x.rows - token : kPanelTokens;
        prepare(x, token, count, l, &panel);
        for (std::int64_t row = outputs.first; row < outputs.last; row += kRows) {
          const std::int64_t rows = outputs.last - row < kRows ? outputs.last - row : kRows;
          float* to = out + token * out_stride + row;
          for (std::int64_t t = 0; t < count; t += kTile, to += kTile * out_stride) {
            const std::int64_t left = count - t;
            if (left >= 4) tile<4>(w, l, row, panel, t, to, out_stride, rows);
            if (left == 3) tile<3>(w, l, row, panel, t, to, out_stride, rows);
            if (left == 2) tile<2>(w, l, row, panel, t, to, out_stride, rows);
            if (left == 1) tile<1>(w, l, row, panel, t, to, out_stride, rows);
          }
        }
      }
    }
  }

 private:
  using S = Steps<Bits>;
  static constexpr int kUnits = kColumns / S::kUnitColumns;  // of a whole block
  static constexpr int kWords = kUnits * S::kCount;          // of a token in a block
  static constexpr int kTile = 4;
  static constexpr std::int64_t kPanelTokens = 32, kPanelBlocks = 2048;

  /// Blocks [first, first + blocks) of some tokens. Tiles of four tokens, the last one perhaps of
  /// fewer, follow each other: [tile][block][step][token of the tile].
  struct Panel {
    alignas(64) std::int32_t words[kPanelBlocks * kWords];
    float scale[kPanelBlocks];
    std::int32_t sum[kPanelBlocks];
    std::int64_t first, blocks;
  };

  static void prepare(Matrix x, std::int64_t first, std::int64_t count, const PackedLayout& l,
                      Panel* panel) {
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t tile = t / kTile * kTile, lane = t - tile;
      const std::int64_t width = count - tile < kTile ? count - tile : kTile;
      Walk walk(l, x.columns, panel->first);
      for (std::int64_t b = 0; b < panel->blocks; ++b, walk.next()) {
        TokenBlock block;
        const std::int64_t from = (first + t) * x.stride + walk.first_column();
        quantise_block(at(x.data, x.type, from), x.type, walk.count(), &block);
        const std::int64_t to = tile * panel->blocks + b * width + lane;
        panel->scale[to] = block.scale;
        panel->sum[to] = block.sum * (Symmetric ? 1 << (Bits - 1) : 1);
        std::int32_t* words = panel->words + (tile * panel->blocks + b * width) * kWords + lane;
        arrange(block.codes, words, width);
      }
    }
  }

  /// The codes of a block in the order of the steps, `width` words apart.
  TESSERA_KERNELS_INLINE static void arrange(const std::int8_t* codes, std::int32_t* to,
                                             std::int64_t width) {
    alignas(32) std::int32_t words[kWords];
    if constexpr (Bits == 4) {
      const __m256i order = _mm256_broadcastsi128_si256(
          _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15));
      const __m256i bytes = _mm256_load_si256(reinterpret_cast<const __m256i*>(codes));
      _mm256_store_si256(reinterpret_cast<__m256i*>(words), _mm256_shuffle_epi8(bytes, order));
    } else {
      for (int word = 0; word < kWords; ++word) {
        const std::int8_t* unit = codes + word / S::kCount * S::kUnitColumns;
        std::uint32_t bits = 0;
        constexpr int kParts = Bits == 8 ? 2 : 4, kPartBits = 32 / kParts;
        for (int i = 0; i < kParts; ++i) {
          const int column = S::column(word % S::kCount, i);
          const auto code = static_cast<std::uint32_t>(column < 0 ? 0 : unit[column]);
          bits |= (code & ((1u << kPartBits) - 1)) << (kPartBits * i);
        }
        words[word] = static_cast<std::int32_t>(bits);
      }
    }
    for (int word = 0; word < kWords; ++word) to[word * width] = words[word];
  }

  template <int Tokens>
  [[gnu::noinline]] static void tile(const CodedWeights& w, const PackedLayout& l, std::int64_t row,
                                     const Panel& panel, std::int64_t first, float* out,
                                     std::int64_t out_stride, std::int64_t rows) {
    __m256 total[Tokens][kVectors];
    for (auto& token : total) token[0] = token[1] = _mm256_setzero_ps();
    Walk walk(l, w.columns, panel.first);
    const auto* words = w.words + l.word(row / kRows, walk.group, walk.inside / S::kUnitColumns);
    const std::int64_t first_scale = row / kRows * l.groups * kRows;
    const std::int32_t* x = panel.words + first * panel.blocks * kWords;
    const float* scale = panel.scale + first * panel.blocks;
    const std::int32_t* sum = panel.sum + first * panel.blocks;
    for (std::int64_t b = 0; b < panel.blocks; ++b) {
      __m256i sums[Tokens][kVectors];
      for (auto& token : sums) token[0] = token[1] = _mm256_setzero_si256();
      const std::int64_t count = walk.count();
      if (count == kColumns) {
#pragma GCC unroll 8
        for (int unit = 0; unit < kUnits; ++unit) {
          add_unit(words + unit * S::kUnitWords * kRows, x + unit * S::kCount * Tokens, sums);
        }
        words += kUnits * S::kUnitWords * kRows;
      } else {
        for (int unit = 0; unit * S::kUnitColumns < count; ++unit) {
          add_unit(words, x + unit * S::kCount * Tokens, sums);
          words += S::kUnitWords * kRows;
        }
      }
      finish(w, l, first_scale + walk.group * kRows, scale, sum, sums, total);
      x += kWords * Tokens;
      scale += Tokens;
      sum += Tokens;
      walk.next();
    }
    for (int t = 0; t < Tokens; ++t) {
      store(total[t], rows, panel.first == 0, out + t * out_stride);
    }
  }

  template <int Tokens>
  TESSERA_KERNELS_INLINE static void add_unit(const std::uint32_t* at, const std::int32_t* x,
                                              __m256i (&sums)[Tokens][kVectors]) {
    __m256i words[kVectors][S::kUnitWords];
#pragma GCC unroll 4
    for (int i = 0; i < S::kUnitWords; ++i) {
      _mm_prefetch(at + (32 + i) * kRows, _MM_HINT_T0);  // 2 KiB ahead
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        words[v][i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(at + i * kRows + v * 8));
      }
    }
    add_steps<0>(words, x, sums);
  }

  template <int Step, int Tokens>
  TESSERA_KERNELS_INLINE static void add_steps(const __m256i (&words)[kVectors][S::kUnitWords],
                                               const std::int32_t* x,
                                               __m256i (&sums)[Tokens][kVectors]) {
    __m256i codes[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) codes[v] = S::template codes<Step>(words[v]);
#pragma GCC unroll 4
    for (int t = 0; t < Tokens; ++t) {
      const __m256i token = _mm256_set1_epi32(x[Step * Tokens + t]);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = S::add(sums[t][v], codes[v], token);
    }
    if constexpr (Step + 1 < S::kCount) add_steps<Step + 1>(words, x, sums);
  }

  /// scale * token scale * (sum of products - zero point * sum of the token's codes)
  template <int Tokens>
  TESSERA_KERNELS_INLINE static void finish(const CodedWeights& w, const PackedLayout& l,
                                            std::int64_t at, const float* scale,
                                            const std::int32_t* sum,
                                            const __m256i (&sums)[Tokens][kVectors],
                                            __m256 (&total)[Tokens][kVectors]) {
    const char* scales = w.scales;
    const char* zero_points = scales + l.scales_bytes + at;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const __m256 rows =
          load8(cpu::at(scales, w.format.scale_type, at + v * 8), w.format.scale_type);
      __m256i zero = _mm256_setzero_si256();
      if (!Symmetric) {
        const auto* bytes = reinterpret_cast<const __m128i*>(zero_points + v * 8);
        zero = _mm256_cvtepu8_epi32(_mm_loadl_epi64(bytes));
      }
#pragma GCC unroll 4
      for (int t = 0; t < Tokens; ++t) {
        __m256i off = _mm256_set1_epi32(sum[t]);
        if (!Symmetric) off = _mm256_mullo_epi32(off, zero);
        const __m256i whole = _mm256_sub_epi32(S::widen(sums[t][v]), off);
        const __m256 part = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), _mm256_set1_ps(scale[t]));
        total[t][v] = _mm256_fmadd_ps(rows, part, total[t][v]);
      }
    }
  }

  static void store(const __m256* total, std::int64_t rows, bool first, float* out) {
    alignas(32) float values[kRows];
    for (int v = 0; v < kVectors; ++v) _mm256_store_ps(values + 8 * v, total[v]);
    for (std::int64_t r = 0; r < rows; ++r) out[r] = first ? values[r] : out[r] + values[r];
  }
};

template <int Bits>
void gemm_of_bits(Matrix x, const CodedWeights& w, Rows outputs, float* out,
                  std::int64_t out_stride) {
  if ((w.format.offset == Offset::zero)) {
    GemmA8<Bits, true>::run(x, w, outputs, out, out_stride);
  } else {
    GemmA8<Bits, false>::run(x, w, outputs, out, out_stride);
  }
}

}  // namespace

void dequant_gemm_a8(Matrix x, CodedWeights w, Rows outputs, float* out, std::int64_t out_stride) {
  if (w.format.bitwidth == 3) gemm_of_bits<3>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 4) gemm_of_bits<4>(x, w, outputs, out, out_stride);
  if (w.format.bitwidth == 8) gemm_of_bits<8>(x, w, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::avx2
