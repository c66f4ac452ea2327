#pragma once

#include <OsiClpSolverInterface.hpp>

#include "ilp/linear_model.h"

namespace tessera::solver {

/// Puts a model into a silent COIN-OR solver.
void load(const LinearModel& model, OsiClpSolverInterface& solver);

}  // namespace tessera::solver
