#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

/// Which time of a stage is balanced.
enum class BalancedPhase {
  both,     ///< its share of the latency: all its prefill units and all its decode units
  prefill,  ///< one prefill unit, as PipeEdge, which knows one phase only
  decode,   ///< one decode step
};

/// Layers per stage, contiguous and at least one each, all at one bitwidth, that minimise the
/// largest stage's balanced time within memory (of both phases, whichever is balanced); absent
/// where none fits. Exact, by dynamic programming over (stage, layers done). Links take no part:
/// in a given order every boundary sends the same activations wherever it lies.
std::optional<std::vector<std::size_t>> balanced_partition(const Instance& instance,
                                                           const std::vector<std::size_t>& order,
                                                           std::size_t bit,
                                                           std::int64_t prefill_micro_batch_size,
                                                           std::int64_t decode_micro_batch_size,
                                                           BalancedPhase phase);

}  // namespace tessera::solver
