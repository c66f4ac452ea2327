#pragma once

#include <string>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// "plan: 4 stages, 19.70 s, 162.4 tok/s, optimal": one line.
std::string summarise(const Plan& plan);

/// The whole plan for a terminal: table of stages with bitwidths and memory bars, totals, bound,
/// provenance, notes.
std::string describe(const Plan& plan);

/// Where the time and the memory go: filling the pipeline, the other micro-batches, decoding; the
/// tightest memory; the share of quality in the objective.
std::string explain(const Plan& plan);

}  // namespace tessera::solver
