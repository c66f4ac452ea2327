#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/problem/problem.h"

/// Divided attention as scripts say it, by names of devices.
namespace tessera::solver {

struct NamedAttention {
  std::string device;  ///< "T4-16G" or "T4-16G@node"
  double ratio = 1;    ///< of the KV heads
};

/// A stage of a plan made by hand.
struct NamedStage {
  std::string device;
  std::optional<NamedAttention> attention = {};
};

struct PlacedAttention {
  std::vector<std::size_t> stages;  ///< [stages] into the cluster's devices
  std::vector<DividedAttention> attention;
  std::vector<std::string> notes;  ///< ratios that were rounded to whole heads
};

/// The ratio of whole heads that is nearest, of the first kind of layer where these differ.
/// @param notes gets one where it is another
double whole_heads_ratio(const ModelShape& model, double ratio, const std::string& stage,
                         std::vector<std::string>& notes);

/// Stages take the first device of their name that is left, in order, and then heads of theirs do.
/// @throws Error{not_found | invalid_argument} naming `where` of a device that is not there.
PlacedAttention place_attention(const BatchProblem& batch, const std::vector<NamedStage>& stages,
                                const std::string& where);

}  // namespace tessera::solver
