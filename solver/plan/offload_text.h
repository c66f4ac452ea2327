#pragma once

#include <string>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// Lines for describe(): where each stage keeps what it needs.
std::string describe_offload(const PipelinePlan& plan);

/// The explanation of an offloading plan: what each phase waits for, and what memory is fullest.
std::string explain_offload(const PipelinePlan& plan);

}  // namespace tessera::solver
