#pragma once

#include <optional>
#include <vector>

#include "tessera/solver/offload/offload.h"

namespace tessera::solver {

/// Shares of least latency by FlexGen's linear programme (eq. (1) of its section 4.3), over all
/// stages at once, on CLP; absent where none fits.
std::optional<std::vector<StageOffload>> best_offload(const OffloadModel& model);

}  // namespace tessera::solver
