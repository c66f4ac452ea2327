#pragma once

#include <string>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// The stages of a pipeline as a table, as wide as text_columns() allows: three or more neighbours
/// that look the same share a line ("14 x A100-80G", "2 layers each"), and a narrow terminal gets
/// shorter memory bars, then short words.
std::string stage_table(const PipelinePlan& plan);

/// Of its capacity; 0 where there is none.
double used_ratio(const StageMemory& memory);

}  // namespace tessera::solver
