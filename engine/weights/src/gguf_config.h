#pragma once

#include "tessera/core/json.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// The config.json that the family would have, from the metadata of a GGUF file; sizes that it
/// leaves out come from its tensors.
/// @throws Error{unsupported} naming the architecture, Error{invalid_argument} for absent keys
Json config_of_gguf(const Weights& weights);

}  // namespace tessera::weights
