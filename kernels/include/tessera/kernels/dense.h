#pragma once

#include <cstdint>

#include "tessera/kernels/gemm.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Weights [rows = out_features, columns = in_features] of 16 or 32 bits in the order in which the
/// SIMD kernels read them: blocks of kRowsPerBlock output rows, of which the last is filled up with
/// rows of zeros:
///
///     [block][column][row of the block]       numbers of `type`
struct DenseWeights {
  std::int64_t rows, columns;
  Real type;
  const void* data;  ///< dense_weights_bytes() bytes, aligned to 64
};

/// Bytes that pack_dense_weights() fills; 0 where the type or the shape is not valid.
std::int64_t dense_weights_bytes(std::int64_t rows, std::int64_t columns, Real type);

/// Lays out `weights`, converted to `type` (to nearest where that is narrower). `rows` (to share
/// among threads) must begin at a multiple of kRowsPerBlock and end at one or at the last row.
/// `data` is aligned to 64 bytes.
Status pack_dense_weights(Matrix weights, Real type, Rows rows, void* data);

/// out[token][output] = sum over k of activations[token][k] * weights[output][k] for the outputs in
/// `outputs`; activations [m, in_features] of any type, `out` [m][out_stride]. 16-bit numbers are
/// converted to f32, which is exact; products and sums are f32. `outputs` must begin at a multiple
/// of kRowsPerBlock and end at one or at the last row.
///
/// A token's sums are added up in the same order whatever else is in the call: its outputs have the
/// same bits with any number of tokens and any slice of outputs, for one version of the kernel.
Status dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride);

}  // namespace tessera::kernels
