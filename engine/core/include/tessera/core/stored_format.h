#pragma once

#include <optional>
#include <string>

#include "tessera/core/json_fwd.h"

namespace tessera {

/// How the weights of a checkpoint are stored, as its configuration says, in the words of ModelId.
struct StoredFormat {
  std::optional<std::string> format = {};  ///< "awq", "compressed-tensors w4a16", ...
  std::optional<double> bits = {};  ///< of a weight; absent where layers differ or nobody says
};

/// By `quantization_config` of a folder's config.json (transformers), at its top or in text_config,
/// or by `quantization` of a hf_quant_config.json beside it (ModelOpt). Empty of a checkpoint of
/// numbers.
/// @param config what the folder's config.json holds
/// @throws Error as read_json_file does for a hf_quant_config.json that is there
StoredFormat stored_format(const Json& config, const std::string& folder);

}  // namespace tessera
