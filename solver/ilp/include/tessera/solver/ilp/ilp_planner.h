#pragma once

#include <memory>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The integer programme (solver/README.md, Integer programme) on COIN-OR CBC, with ordering inside
/// the model when no order is given.
std::unique_ptr<Planner> make_ilp_planner();

}  // namespace tessera::solver
