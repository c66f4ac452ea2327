#pragma once

#include <memory>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The formulation of planner.md section 3 on COIN-OR CBC, with ordering inside the model when no
/// order is given.
std::unique_ptr<Planner> make_ilp_planner();

}  // namespace tessera::solver
