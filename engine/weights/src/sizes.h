#pragma once

#include <string>

#include "tessera/core/model_shape.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// Token embedding and LM head, where the file holds them, against the model: config.json and
/// tensors of two different models would give numbers of neither.
/// @param prefix what stands before the names of layers
/// @throws Error{invalid_argument} with the tensor, its shape and the sizes of config.json
void check_embeddings(const Weights& weights, const ModelShape& model, const std::string& prefix);

}  // namespace tessera::weights
