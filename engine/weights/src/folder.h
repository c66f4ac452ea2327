#pragma once

#include <string>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::weights {

/// The files that a path stands for.
struct Source {
  std::vector<std::string> files;  ///< of weights, each once
  std::string index_path;          ///< of model.safetensors.index.json, or ""
  Json weight_map;                 ///< its names and files
  std::string config_path;         ///< of config.json, or ""
};

/// A file of weights, or a folder: its index, its model.safetensors, all its safetensors in the
/// order of their names, or its one GGUF model, in this order. One part of a GGUF model stands for
/// all of them.
/// @throws Error{not_found, io, invalid_argument, unsupported}
Source find_source(const std::string& path);

/// The files of an index, each once, in the order of their names. They lie in the index's folder:
/// names that lead out of it are refused.
/// @throws Error{invalid_argument} naming the index
std::vector<std::string> files_of_index(const Json& weight_map, const std::string& index_path);

/// The map of an index file's text. @throws Error{invalid_argument}
Json parse_index(std::string_view text, const std::string& index_path);

/// @throws Error{unsupported} that names scripts/convert_checkpoint.py
[[noreturn]] void refuse_pickle(const std::string& path);

}  // namespace tessera::weights
