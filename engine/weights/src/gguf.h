#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"
#include "tessera/weights/weights.h"

namespace tessera::weights {

/// The first bytes of a GGUF file.
bool looks_like_gguf(std::span<const std::byte> file);

/// Which of the files of a model this one is.
struct GgufPart {
  std::uint64_t index = 0, count = 1;
  std::uint64_t num_tensors = 0;  ///< of all parts; 0: the file does not say
};

struct GgufHeader {
  GgufPart part;
  std::vector<TensorInfo> tensors;              ///< by offset
  Json metadata = Json::object();               ///< long arrays as { "type", "length" }
  std::map<std::string, std::uint64_t> arrays;  ///< the byte at which each array begins
};

/// Reads and checks the header of a GGUF file, version 2 or 3, little-endian.
/// Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
/// @param path named in errors
GgufHeader parse_gguf(std::span<const std::byte> file, const std::string& path);

/// The array that begins at byte `begin` of a file that parse_gguf took, of any length.
/// @throws Error{invalid_argument} unless its entries are texts in UTF-8 (numbers)
std::vector<std::string_view> gguf_texts(std::span<const std::byte> file, const std::string& path,
                                         std::uint64_t begin);
std::vector<double> gguf_numbers(std::span<const std::byte> file, const std::string& path,
                                 std::uint64_t begin);

}  // namespace tessera::weights
