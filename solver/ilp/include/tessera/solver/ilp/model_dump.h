#pragma once

#include <string>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// Writes the integer programme of one pair of micro-batch sizes, for other solvers: CPLEX LP or
/// free MPS by the path's extension, with readable names; its objective is the plan's, in seconds.
/// Uses the request's order (absent: inside the model), micro-batch sizes (both required), form,
/// seed and limits. The tightened form holds every plan as good as the best that a local search
/// finds.
/// @return what binds when no plan exists; nothing is written then.
/// @throws Error{invalid_argument} for another extension, Error{io} when writing fails.
std::optional<Violation> write_model(const Instance& instance, const PlanRequest& request,
                                     const std::string& path);

}  // namespace tessera::solver
