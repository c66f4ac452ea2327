#pragma once

#include <optional>

#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// The checker's part for plans that offload: shares, devices, memory of devices and hosts, disks,
/// quality floor, and that every printed number is what the cost model says.
std::optional<Violation> check_offload(const PipelinePlan& plan);

}  // namespace tessera::solver
