#pragma once

#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/quant/scheme.h"

namespace tessera::quant {

/// One Linear of the model and the bits it is stored in.
struct StoredModule {
  std::string name;  ///< "model.layers.0.self_attn.q_proj"
  std::int64_t layer_index = 0;
  int bitwidth = 0;
};

/// `quantization_config` of config.json: a group of targets for each bitwidth, and `ignore` for
/// every Linear that is none of them.
/// @param as_int8 W8A8
Json quantization_config(const std::vector<StoredModule>& quantised,
                         const std::vector<std::string>& ignore, const Scheme& scheme,
                         bool as_int8);

}  // namespace tessera::quant
