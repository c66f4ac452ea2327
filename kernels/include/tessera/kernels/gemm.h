#pragma once

#include <cstdint>

#include "tessera/kernels/quantise.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Quantised weights [rows = out_features, columns = in_features] in the order in which the SIMD
/// kernels read them. Sixteen output rows form a block; a word of 32 bits holds consecutive columns
/// of one row, and the words of the sixteen rows stand side by side, so that a SIMD lane is an
/// output row and needs no sum across lanes:
///
///     words, bitwidth 4:          row 0         row 1            row 15
///       columns 0..7        | 7 6 5 4 3 2 1 0 | 7 6 ... 1 0 | ... | 7 6 ... |   64 bytes
///       columns 8..15       | 15 ...        8 | ...                         |   64 bytes
///       ...                   lowest bits right: column 0 is in bits 0..3 of its word
///
///     bitwidth 8: a word holds 4 columns. bitwidth 3: three words w0 w1 w2 (3 x 64 bytes) hold 32
///     columns: w0 columns 0..9, w1 10..19, w2 20..29 in their lower 30 bits; the bits of column 30
///     are bit 30 of w0, w1, w2 (lowest first), those of column 31 are their bits 31.
///
/// Every group begins at a new unit of 8, 4 or 32 columns; what it leaves of its last unit, and the
/// rows that the last block lacks, hold zeros. The three parts follow each other, each aligned to
/// 64 bytes:
///
///     words        [block][group][unit][word of the unit][row of the block]   std::uint32_t
///     scales       [block][group][row of the block]                           format.scale_type
///     zero points  [block][group][row of the block]       std::uint8_t, asymmetric formats only
struct PackedWeights {
  std::int64_t rows, columns;
  QuantFormat format;
  const void* data;  ///< packed_weights_bytes() bytes, aligned to 64
};

/// Output rows of a block: slices of rows that threads share should begin at multiples of it.
inline constexpr std::int64_t kRowsPerBlock = 16;

/// Bytes that pack_weights() fills; 0 where the format or the shape is not valid.
std::int64_t packed_weights_bytes(std::int64_t rows, std::int64_t columns, QuantFormat format);

/// Codes [rows][columns], scales and zero points [rows][num_groups] as in quantise.h. Scales must
/// be numbers of format.scale_type. `rows` (to share among threads) must begin at a multiple of
/// kRowsPerBlock and end at one or at the last row. `data` is aligned to 64 bytes.
Status pack_weights(const std::uint8_t* codes, std::int64_t num_rows, std::int64_t columns,
                    QuantFormat format, const float* scale, const std::uint8_t* zero_point,
                    Rows rows, void* data);

/// out[token][output] = sum over k of activations[token][k] * weights[output][k] for the outputs in
/// `outputs`; activations [m, in_features], `out` [m][out_stride]. Sums in f32; m is anything from
/// 1 (decode) to a prefill. `outputs` must begin at a multiple of kRowsPerBlock and end at one or
/// at the last row.
///
/// The version for AVX-512 VNNI takes the activations of 4-bit weights as fixed-point numbers of 23
/// bits, in a unit of its own for every kActivationBlock columns (gemm_a8.h), and sums a block
/// exactly: an activation is off by at most 2^-22 of the largest beside it, where an f32 sum rounds
/// by 2^-24 of itself at every step. NMSE against double, normally distributed activations: below
/// 1e-11 in every version. NaN or Inf in a token make its outputs NaN or Inf.
///
/// A token's sums are added up in the same order whatever else is in the call: its outputs have the
/// same bits with any number of tokens and any slice of outputs, for one version of the kernel and
/// activations that are 0 or of at least 2^-98 (below, a call of few tokens keeps fewer bits).
Status dequant_gemm(Matrix activations, PackedWeights weights, Rows outputs, float* out,
                    std::int64_t out_stride);

/// What pack_weights() was given, for other memory: `rows`, any of them, codes [rows of the slice]
/// [columns], scales and zero points [rows of the slice][num_groups]. `zero_point` is always
/// written.
Status unpack_codes(PackedWeights weights, Rows rows, std::uint8_t* codes, float* scale,
                    std::uint8_t* zero_point);

/// The numbers that are multiplied: `rows`, any of them, as f32 [rows of the slice][columns].
Status unpack_weights(PackedWeights weights, Rows rows, float* out);

}  // namespace tessera::kernels
