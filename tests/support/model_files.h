#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/model_shape.h"

namespace tessera::test {

inline std::string model_path(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/datasets/models/" + name + ".json";
}

inline Json shipped_json(const std::string& name) { return read_json_file(model_path(name)); }

inline ModelShape shipped(const std::string& name) {
  return model_from_json(shipped_json(name), name + ".json");
}

/// Names of all shipped architectures, sorted.
inline std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/datasets/models")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline ModelShape from_config(const Json& config) {
  return model_from_hf_config(config, "tried", "dir/config.json");
}

/// The error that `action` throws; a failure of the test if it throws none.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "none");
}

}  // namespace tessera::test
