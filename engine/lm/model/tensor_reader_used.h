#pragma once

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "layer.h"

namespace tessera::lm {

/// The module: of "q_proj.weight" and of what bitsandbytes writes beside it,
/// "q_proj.weight.absmax", q_proj; of a stack of experts the stack, be it of blocks and scales.
inline std::string stem_of(const std::string& name) {
  return name.substr(0, std::min(name.rfind('.'), name.find(".weight.")));
}

/// What reads the hidden state in attention, as one product; of those the layer has its own.
inline const std::vector<std::string> kAttentionInputs = {"q_proj", "k_proj", "v_proj"};
inline const std::vector<std::string> kLatentInputs = {"q_proj", "q_a_proj", "kv_a_proj"};

struct TensorReader::Used {
  std::mutex mutex;
  std::set<std::string> stems;  ///< names without ".weight", ".bias", ".weight_packed"
  std::int64_t numbers = 0;     ///< read that are not of a matrix with a form
};

}  // namespace tessera::lm
