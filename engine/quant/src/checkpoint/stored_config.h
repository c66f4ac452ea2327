#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/quant/scheme.h"
#include "tessera/weights/weights.h"

// quantization_config of a checkpoint that compressed-tensors wrote.
namespace tessera::quant {

struct StoredConfig {
  bool int8 = false;            ///< int-quantized; else pack-quantized
  std::vector<Scheme> schemes;  ///< one of each config group; all that a matrix may have
};

/// @throws Error{unsupported, invalid_argument} naming the member of config.json
StoredConfig stored_config(const weights::Weights& weights);

/// "4-bit group 128 symmetric, 8-bit channel symmetric"
std::string describe(const std::vector<Scheme>& schemes);

}  // namespace tessera::quant
