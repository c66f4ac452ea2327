#pragma once

#include "exact/config_table.h"
#include "exact/path_search.h"

namespace tessera::solver::exact {

/// The plan behind a pipeline: true groups where the path names kinds, and every layer's bitwidth.
Candidate plan_of(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                  const Path& path);

}  // namespace tessera::solver::exact
