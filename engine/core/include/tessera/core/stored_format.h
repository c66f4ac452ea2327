#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"
#include "tessera/core/model_shape.h"

namespace tessera {

/// How the weights of a checkpoint are stored, as its configuration says, in the words of ModelId.
struct StoredFormat {
  std::optional<std::string> format = {};  ///< "awq", "compressed-tensors w4a16", ...
  std::optional<double> bits = {};  ///< of a weight; absent where layers differ or nobody says
  /// Weights along the inputs of a matrix that share a scale, or those of an FP8 block; absent
  /// where a scale is of a channel or a tensor, and of MXFP4, which runtimes pad.
  std::optional<std::int64_t> group_size = {};
};

/// Names of modules that a quantised checkpoint keeps in 16 bits, as it writes them: whole names or
/// beginnings of them, with * or, behind "re:", regular expressions.
std::vector<std::string> kept_modules(const Json& config, const std::string& folder);

/// Which matrices those are, and in which share of the model's layers.
std::vector<KeptLinear> kept_linears(const std::vector<std::string>& modules,
                                     const ModelShape& model);

/// By `quantization_config` of a folder's config.json (transformers), at its top or in text_config,
/// or by `quantization` of a hf_quant_config.json beside it (ModelOpt). Empty of a checkpoint of
/// numbers.
/// @param config what the folder's config.json holds
/// @throws Error as read_json_file does for a hf_quant_config.json that is there
StoredFormat stored_format(const Json& config, const std::string& folder);

}  // namespace tessera
