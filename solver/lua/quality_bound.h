#pragma once

#include <string>

#include "tessera/core/files.h"
#include "tessera/solver/problem/problem.h"

/// Quality in users' words: from published losses, or the model's own, to the planner's omega.
/// Inside this module only.
namespace tessera::solver_lua {

/// Sets what is known of the losses of the problem's model. With a bound in users' words, or where
/// `in_nats`, omega becomes these losses, and a bound becomes max_omega.
void set_quality(solver::Problem& problem, const DataFolders& folders, bool in_nats);

/// @throws Error{invalid_argument} where an instance file, which knows no model, has such a bound
void refuse_bound(const solver::Problem& problem, const std::string& path);

}  // namespace tessera::solver_lua
