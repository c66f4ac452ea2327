#pragma once

#include <string>
#include <vector>

#include "tessera/quant/checkpoint.h"
#include "tessera/weights/linears.h"

namespace tessera::quant {

/// A stored weight that is quantised as a whole: one linear, or the fused ones of a layer.
struct StoredMatrix {
  const weights::TensorInfo* tensor = nullptr;
  std::string module;
  std::int64_t layer_index = 0;
  std::vector<std::string> linears;  ///< as LinearShape names them
  Scheme scheme;

  std::int64_t rows() const { return tensor->shape[0]; }
  std::int64_t columns() const { return tensor->shape[1]; }
};

/// All of layers below 16 bits, by layer.
/// @throws Error{unsupported} for what compressed-tensors has no place for: transposed matrices,
/// stacked experts, other types than F32, F16 and BF16; Error{invalid_argument} for a group_size
/// that does not divide in_features
std::vector<StoredMatrix> matrices_of(const weights::Weights& model, const ModelShape& shape,
                                      const CheckpointRequest& request);

}  // namespace tessera::quant
