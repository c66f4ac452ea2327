#pragma once

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Where stages take turns (StageRule::one_node), how many layers each of several equal devices has
/// may change nothing, so that planners return any cut. Of these the one a person would make:
/// layers move between neighbouring stages of one group as long as that evens them out and makes
/// the plan no worse. @param candidate that breaks nothing
Candidate even_stages(const Instance& instance, Candidate candidate);

}  // namespace tessera::solver
