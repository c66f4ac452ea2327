#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation
inline constexpr std::size_t kMaxDimensions = 32;

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  ///< by offset
  Json metadata = Json::object();   ///< texts
};

/// Reads and checks the header of a safetensors file: length, JSON, types, shapes, offsets, and
/// that the tensors fill the rest of the file, as its reference implementation demands.
/// Source: https://github.com/huggingface/safetensors, README "Format" and tensor.rs.
/// @param path named in errors
SafetensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& path);

}  // namespace tessera::weights
