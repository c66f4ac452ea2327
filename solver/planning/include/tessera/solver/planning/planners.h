#pragma once

#include <memory>
#include <vector>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The planners written in C++, the default one first.
std::vector<std::unique_ptr<Planner>> make_planners();

}  // namespace tessera::solver
