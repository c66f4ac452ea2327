#pragma once

#include <string>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Lines for describe(): which heads are on other devices. Empty where none is.
std::string describe_attention(const PipelinePlan& plan);

/// What attention waits for in either phase, where heads are on other devices.
std::string explain_attention(const PipelinePlan& plan);

}  // namespace tessera::solver
