#pragma once

#include <optional>
#include <string>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Says of a batch problem's plan where its latencies come from: the weakest provenance of any
/// layer on any stage, the mean held-out error of the layers weighted by the time that they take
/// (absent where one of them has none), and a note for what leaves the range that was fitted.
void set_origin(PipelinePlan& plan, const Candidate& candidate);

/// Which runs of servers corrected its latencies; of none nothing.
std::optional<std::string> correction_note(const PipelinePlan& plan);

}  // namespace tessera::solver
