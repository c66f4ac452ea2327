#pragma once

#include <memory>
#include <vector>

#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {

/// The planners written in C++, the default one first.
std::vector<std::unique_ptr<Planner>> make_planners();

/// The heuristics written in C++.
std::vector<std::unique_ptr<Heuristic>> make_heuristics();

}  // namespace tessera::solver
