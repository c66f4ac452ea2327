#pragma once

#include "config_table.h"
#include "path_search.h"

namespace tessera::solver::exact {

/// The plan behind a pipeline: true groups where the path names kinds, and every layer's bitwidth.
Candidate plan_of(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                  const Path& path);

/// Where the order is free: leaves out devices that hold no layer and help no link.
void drop_idle_devices(const Instance& instance, Candidate& plan);

}  // namespace tessera::solver::exact
