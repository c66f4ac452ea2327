#pragma once

#include "tessera/kernels/cuda/device.h"
#include "tessera/kernels/int8.h"

// As tessera/kernels/int8.h, over whole matrices in device memory.
namespace tessera::kernels::cuda {

/// Codes [rows][columns] and scale [rows] of a matrix; is_outlier [columns] may be null.
Status quantise_rows(Matrix matrix, const std::uint8_t* is_outlier, std::int8_t* codes,
                     float* scale, Stream stream);

/// Weights as they are, row-major: the tensor cores take both operands from shared memory, so no
/// other order helps.
struct Int8Weights {
  std::int64_t rows, columns;
  const std::int8_t* codes;  ///< [rows][columns]
  const float* scale;        ///< [rows]
};

/// out[token][row] = scale[token] * weights.scale[row] * sum over k of codes[token][k] *
/// weights[row][k], the sum an exact 32-bit integer (kMaxInt8Columns). int8 tensor cores on sm_75
/// and newer, dp4a or plain integers before.
Status int8_gemm(Device device, const std::int8_t* codes, const float* scale, std::int64_t tokens,
                 Int8Weights weights, float* out, std::int64_t out_stride, Stream stream);

/// Writes is_outlier [columns], and how many there are to `num_outliers`, in device memory.
Status find_outlier_columns(Matrix activations, float threshold, std::uint8_t* is_outlier,
                            std::int64_t* num_outliers, Stream stream);

/// Bytes of device memory that add_outlier_product() works in.
std::int64_t outlier_workspace_bytes(std::int64_t columns);

/// Adds to `out` the product over the outlier columns alone, in f32.
Status add_outlier_product(Matrix activations, const std::uint8_t* is_outlier, Matrix weights,
                           float* out, std::int64_t out_stride, void* workspace, Stream stream);

/// Codes [tokens][columns] and scale [tokens] of activations, those of at least `threshold` left
/// out: they do not count for the scale and get the code 0. Decided token by token, where
/// find_outlier_columns() decides for the batch. 0: none is left out.
Status quantise_tokens(Matrix activations, float threshold, std::int8_t* codes, float* scale,
                       Stream stream);

/// Bytes of device memory that add_token_outliers() works in.
std::int64_t token_outliers_workspace_bytes(std::int64_t tokens, std::int64_t columns);

/// Adds to `out` what quantise_tokens() left out, in f32, with the weights that the codes stand
/// for: no second copy of them is needed. `threshold` is above 0, `workspace` aligned to 8.
Status add_token_outliers(Matrix activations, float threshold, Int8Weights weights, float* out,
                          std::int64_t out_stride, void* workspace, Stream stream);

}  // namespace tessera::kernels::cuda
