#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tessera/weights/linears.h"

// Matrices of 4 and 8 bits whose numbers count only times scales that lie beside them in other
// tensors: FP8, NVFP4, MXFP4 and the 4 bits of bitsandbytes.
namespace tessera::weights {

/// Which of them a tensor is, by its type, its name and what lies beside it.
Scaled scaled_kind(const Weights& weights, const TensorInfo& tensor);

/// What the shape of such a tensor must be, of a matrix [rows, columns] or `copies` of them.
std::vector<std::int64_t> scaled_shape(const TensorInfo& tensor, Scaled kind, std::int64_t rows,
                                       std::int64_t columns, std::int64_t copies);

/// Stored rows [first, first + num_rows) of the matrix, times their scales.
/// @throws Error{not_found} for scales that are missing, Error{invalid_argument} for scales of
/// another shape, Error{unsupported} for blocks that are not understood, naming the tensor
void read_scaled_rows(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                      std::int64_t num_rows, std::span<float> out);

}  // namespace tessera::weights
