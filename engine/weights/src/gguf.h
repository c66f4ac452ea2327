#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// The first bytes of a GGUF file.
bool looks_like_gguf(std::span<const std::byte> file);

struct GgufHeader {
  std::vector<TensorInfo> tensors;  ///< by offset
  Json metadata = Json::object();   ///< long arrays as { "type", "length" }
};

/// Reads and checks the header of a GGUF file, version 2 or 3, little-endian.
/// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
/// @param path named in errors
GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& path);

}  // namespace tessera::weights
