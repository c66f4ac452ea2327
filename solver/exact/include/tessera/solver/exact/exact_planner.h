#pragma once

#include <memory>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// Branch and bound over shortest paths (solver/README.md, Exact search): the default. Proves the
/// optimum of the whole search; the answer does not depend on `threads`.
std::unique_ptr<Planner> make_exact_planner();

}  // namespace tessera::solver
