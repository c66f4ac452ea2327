#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/solver/instance.h"

namespace tessera::solver {

/// Layers per stage, contiguous and at least one each, all at one bitwidth, that minimise the
/// largest stage's share of the latency (its weighted prefill and decode time) within memory;
/// absent where none fits. Exact, by dynamic programming over (stage, layers done).
std::optional<std::vector<std::size_t>> balanced_partition(const Instance& instance,
                                                           const std::vector<std::size_t>& order,
                                                           std::size_t bit,
                                                           std::int64_t prefill_micro_batch_size,
                                                           std::int64_t decode_micro_batch_size);

}  // namespace tessera::solver
