#pragma once

#include <mutex>
#include <set>
#include <string>

#include "layer.h"

namespace tessera::lm {

inline std::string stem_of(const std::string& name) { return name.substr(0, name.rfind('.')); }

struct TensorReader::Used {
  std::mutex mutex;
  std::set<std::string> stems;  ///< names without ".weight", ".bias", ".weight_packed"
  std::int64_t numbers = 0;     ///< read that are not of a matrix with a form
};

}  // namespace tessera::lm
