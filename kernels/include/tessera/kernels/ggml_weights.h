#pragma once

#include <cstdint>

#include "tessera/kernels/gemm.h"
#include "tessera/kernels/gemm_a8.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Types of quantised weights in GGUF files. Source: ggml-common.h and dequantize_row_* in
/// ggml-quants.c of llama.cpp. A block holds 32 to 256 columns of a row; those of 256 have scales
/// (and minima) of a few bits for groups of 32 or 16 columns.
enum class GgmlType {
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
  q2_0
};
inline constexpr int kNumGgmlTypes = 26;

/// Columns of a block, 32 to 256: a row is made of whole blocks. 0 for what is no type.
std::int64_t ggml_block_columns(GgmlType type);
/// Bytes of a block in a file. 0 for what is no type.
std::int64_t ggml_block_bytes(GgmlType type);

/// Columns that share a scale: 16 or 32. 0 for what is no type.
std::int64_t ggml_group_columns(GgmlType type);
/// Whether a number is scale * code + minimum; else it is scale * code.
bool ggml_has_minima(GgmlType type);

/// What blocks of a file, of any alignment, say of their elements, each scale * code or scale *
/// code
/// + minimum of its group: `codes` [elements], `scale` and `minimum` [groups]; `minimum` is written
/// where the type has minima.
Status decode_ggml_blocks(GgmlType type, const void* blocks, std::int64_t num_blocks,
                          std::int8_t* codes, float* scale, float* minimum);

/// Weights [rows = out_features, columns = in_features] with the very numbers of the file in the
/// order of PackedWeights (gemm.h): a number is scale * (code - zero) or scale * code + minimum.
///
///     type                     codes   zero   group   scales, minima
///     q4_0                     4 bits     8      32   f16
///     q4_1                     4 bits            32   f16, f16
///     q5_0, q8_0               8 bits 16, 128    32   f16
///     q5_1                     8 bits            32   f16, f16
///     q2_k                     4 bits            16   f32, f32
///     q3_k                     4 bits     4      16   f32
///     q4_k                     4 bits            32   f32, f32
///     q5_k                     8 bits            32   f32, f32
///     q6_k                     8 bits    32      16   f32
///     iq4_nl                   8 bits   128      32   f16
///     q8_k, iq4_xs             8 bits   128      32   f32
///     iq2_xxs, iq3_xxs         8 bits    64      32   f32
///     iq2_xs, iq2_s            8 bits    64      16   f32
///     iq1_s, iq3_s, mxfp4      8 bits    16      32   f32
///     iq1_m, nvfp4             8 bits    16      16   f32
///     tq1_0, tq2_0, q1_0, q2_0 4 bits     1      32   f16
///
/// Codes of the iq types and of 4-bit floats choose from values; the values themselves, whole
/// numbers of eight bits, are what is kept, so that all types are one product. f32 holds the
/// product of a block's f16 scale and a group's few bits exactly. In the place of the zero points
/// are the minima:
///
///     words        as in PackedWeights
///     scales       [block][group][row of the block]
///     minima       [block][group][row of the block]       types that have them only
struct GgmlWeights {
  std::int64_t rows, columns;
  GgmlType type;
  const void* data;  ///< ggml_weights_bytes() bytes, aligned to 64
};

/// Bytes that pack_ggml_weights() fills; 0 where the type or the shape is not valid: columns must
/// be a multiple of ggml_block_columns().
std::int64_t ggml_weights_bytes(std::int64_t rows, std::int64_t columns, GgmlType type);

/// `row_data` [num_rows] points at the blocks of each row, of any alignment; only those of `rows`
/// are read. `rows` (to share among threads) must begin at a multiple of kRowsPerBlock and end at
/// one or at the last row. `data` is aligned to 64 bytes.
Status pack_ggml_weights(const void* const* row_data, std::int64_t num_rows, std::int64_t columns,
                         GgmlType type, Rows rows, void* data);

/// dequant_gemm() (gemm.h) with these weights, and with all that is said there: activations [m,
/// columns], sums in f32.
Status ggml_gemm(Matrix activations, GgmlWeights weights, Rows outputs, float* out,
                 std::int64_t out_stride);

/// dequant_gemm_a8() (gemm_a8.h) with these weights: activations rounded to 8 bits per block of 32
/// columns, or of 16 where a group of the weights has 16.
Status ggml_gemm_a8(Matrix activations, GgmlWeights weights, Rows outputs, float* out,
                    std::int64_t out_stride);

/// The format of a type whose numbers are scale * (code - zero), as quantise.h has them; false for
/// the others, which have minima.
bool ggml_code_format(GgmlType type, QuantFormat* out);

/// As unpack_codes() (gemm.h), of such a type; `unsupported` for the others.
Status unpack_ggml_codes(GgmlWeights weights, Rows rows, std::uint8_t* codes, float* scale,
                         std::uint8_t* zero_point);

/// The numbers that are multiplied: `rows`, any of them, as f32 [rows of the slice][columns].
Status unpack_ggml_weights(GgmlWeights weights, Rows rows, float* out);

}  // namespace tessera::kernels
