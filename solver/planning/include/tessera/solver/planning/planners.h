#pragma once

#include "tessera/core/registry.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {

/// The planners written in C++, the default one first.
const Registry<Planner>& planners();

/// The heuristics written in C++.
const Registry<Heuristic>& heuristics();

}  // namespace tessera::solver
