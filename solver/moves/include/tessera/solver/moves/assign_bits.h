#pragma once

#include <cstddef>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Gives `layers` their bits so that bit b is used exactly counts[b] times and the sum of omega is
/// least: a transportation problem, solved by shortest augmenting paths between the bits.
/// Deterministic. Requires sum of counts = number of layers. Writes to `bit` by layer number.
void assign_bits(const Instance& instance, const std::vector<std::size_t>& layers,
                 std::vector<std::size_t> counts, std::vector<std::size_t>& bit);

/// Reassigns the bits of every stage and layer class among the layers there; stage times and bytes
/// stay, omega falls to its least.
void improve_bits(const Instance& instance, Candidate& candidate);

}  // namespace tessera::solver
