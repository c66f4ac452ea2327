#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/json.h"

// What llama.cpp calls models, and how it files what config.json says of them.
namespace tessera::weights {

/// A key of config.json and the key of the metadata, after "llama.", that says it.
struct Spelling {
  const char* config;
  const char* gguf;
  bool required = true;
};

/// A flag of config.json that holds where a tensor is there.
struct FlagByTensor {
  const char* config;
  const char* tensor;
};

struct Architecture {
  const char* model_type;
  std::vector<Spelling> spellings;
  std::vector<FlagByTensor> flags = {};
  Json fixed = Json::object();  ///< what llama.cpp has in its code and no key for
  /// Rows of q and k lie so that the pairs which turn together are neighbours.
  bool permuted = false;
  /// What layer_types calls layers with key heads and those without; null: that is not so told.
  const char* attends = nullptr;
  const char* keeps_state = nullptr;
};

/// @param name general.architecture; "mixtral" for a llama with experts
/// @return null where it is not known
const Architecture* find_architecture(std::string_view name);
std::vector<std::string> known_architectures();

}  // namespace tessera::weights
