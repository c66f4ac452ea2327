#pragma once

#include <cstddef>

#include "tessera/core/plan.h"
#include "tessera/solver/problem.h"

namespace tessera::solver::offload {

using Real = long double;

/// What the checker works out for itself about one stage.
struct Tally {
  Real prefill = 0, decode = 0;  ///< seconds of one block
  Real device_weights = 0, device_cache = 0, device = 0, host = 0, disk = 0;  ///< bytes
};

/// Worked out from FlexGen's equations as offload.h gives them. Requires sound devices and layers.
Tally tally_stage(const Plan& plan, const ServingProblem& serving, std::size_t k);

}  // namespace tessera::solver::offload
