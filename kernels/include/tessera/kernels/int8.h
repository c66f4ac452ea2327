#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// W8A8: weights with a scale per output row (channel), activations with a scale per token row,
/// both symmetric in [-127, 127] (SmoothQuant, section 3; LLM.int8(), section 3.1).

/// Dynamic quantisation of rows: scale[row] = max |x| / 127 (1 where the row is all zero), codes
/// [rows][columns] rounded to nearest, ties to even. Columns with `is_outlier[column]` not 0 are
/// left out: they do not count for the scale and get the code 0 (`is_outlier` may be null). A row
/// with NaN or Inf elsewhere gets the scale NaN.
Status quantise_rows(Matrix matrix, Rows rows, const std::uint8_t* is_outlier, std::int8_t* codes,
                     float* scale);

/// Weights [rows = out_features, columns = in_features] for the SIMD kernels: blocks of sixteen
/// output rows; four consecutive columns of a row side by side, as the dot-product instructions
/// want them. Columns are padded to 4, rows to 16, with zeros:
///
///     codes  [block][column / 4][row of the block][column % 4]   std::int8_t, 64 bytes per 4
///     columns
struct Int8Weights {
  std::int64_t rows, columns;
  const std::int8_t* codes;  ///< int8_weights_bytes() bytes, aligned to 64
  const float* scale;        ///< [rows]
};

/// Bytes that pack_int8_weights() fills; 0 where the shape is not valid.
std::int64_t int8_weights_bytes(std::int64_t rows, std::int64_t columns);

/// `codes` [num_rows][columns]; quantise_rows() makes none of -128, other programs do. `rows` must
/// begin at a multiple of 16 (kRowsPerBlock) and end at one or at the last row.
Status pack_int8_weights(const std::int8_t* codes, std::int64_t num_rows, std::int64_t columns,
                         Rows rows, std::int8_t* packed);

/// Columns up to which a sum of products is an exact 32-bit integer: activations reach 127, weights
/// that other programs made -128.
inline constexpr std::int64_t kMaxInt8Columns = 0x7fffffff / (127 * 128);

/// out[token][output] = scale[token] * weights.scale[output] * sum over k of codes[token][k] *
/// weights[output][k]. The sum is an exact integer; more than kMaxInt8Columns columns are
/// `unsupported`. codes [tokens][columns]; `out` [tokens][out_stride].
Status int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
                 Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride);

/// LLM.int8() (Dettmers et al., 2022, section 3.2): a column is an outlier where any |x| of it is
/// at least `threshold`. Writes is_outlier [columns] (0 or 1) and how many there are.
inline constexpr float kOutlierThreshold = 6.0f;
Status find_outlier_columns(Matrix activations, float threshold, std::uint8_t* is_outlier,
                            std::int64_t* num_outliers);

/// The other half of the decomposition: adds to `out` the product over the outlier columns alone,
/// in f32, with the weights [out_features, in_features] as they were before quantisation.
Status add_outlier_product(Matrix activations, const std::uint8_t* is_outlier, Matrix weights,
                           Rows outputs, float* out, std::int64_t out_stride);

}  // namespace tessera::kernels
