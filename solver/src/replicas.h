#pragma once

#include <optional>

#include "tessera/solver/problem.h"

namespace tessera::solver {

/// The checker's part for plans with replicas: each of them on its own, that they stand on
/// different devices of the one cluster and share out its batch, and that the numbers above them
/// follow.
std::optional<Violation> check_replicas(const Plan& plan);

}  // namespace tessera::solver
