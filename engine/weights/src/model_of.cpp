#include <fmt/format.h>

#include <filesystem>

#include "gguf_config.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {
namespace fs = std::filesystem;
namespace {

// "models/opt-125m/" and "." have names too.
std::string folder_name(const std::string& config_path) {
  std::error_code ignored;
  const fs::path folder = fs::absolute(config_path, ignored).lexically_normal().parent_path();
  return folder.filename().empty() ? fs::path(config_path).stem().string()
                                   : folder.filename().string();
}

}  // namespace

ModelShape model_of(const Weights& weights) {
  const std::string& path = weights.config_path();
  if (weights.is_gguf()) {
    return model_from_hf_config(config_of_gguf(weights), fs::path(path).stem().string(), path);
  }
  if (weights.config().is_null()) {
    throw Error(ErrorCode::not_found,
                fmt::format("{}: no config.json beside the weights says what model they are; copy "
                            "it from where they came from",
                            quote(weights.path(), 300)),
                weights.path());
  }
  return model_from_hf_config(weights.config(), folder_name(path), path);
}

}  // namespace tessera::weights
