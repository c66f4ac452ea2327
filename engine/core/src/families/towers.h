#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"

namespace tessera::hf {

/// The encoders of pictures and sound that a config.json has beside its text decoder, and about
/// what they hold: to a tenth of what their modules have in transformers 5.24.
/// @param hidden_size of the text, which their outputs become
std::vector<Tower> towers_of(const Json& config, std::int64_t hidden_size);

}  // namespace tessera::hf
