#pragma once

#include <vector>

#include "tessera/serving/log.h"
#include "tessera/serving/token_chain.h"

namespace tessera::serving {

/// What a run of one engine took from the world, for a simulation that is to take the same.
struct Recorded {
  /// With its steps. How many tokens were guessed, and which passed, come from it.
  const Log* log = nullptr;
  /// Start and end of each step, when requests came and clients left come from it too; else from
  /// StepCost and the traffic.
  bool with_times = true;
  Ticks end = 0;  ///< of all that was recorded: steps that were not are over after it
  /// [request][prompt and output] as far as two of them being equal counts; empty: as the traffic
  /// says.
  std::vector<std::vector<Token>> tokens = {};
};

}  // namespace tessera::serving
