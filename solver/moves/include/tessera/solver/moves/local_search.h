#pragma once

#include <cstdint>
#include <optional>

#include "tessera/solver/instance/deadline.h"
#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

struct LocalSearchSetting {
  std::vector<std::size_t> order;  ///< where to start; kept unless `free_order`
  bool free_order = false;
  std::int64_t prefill_micro_batch_size = 1;
  std::int64_t decode_micro_batch_size = 1;
  std::int64_t num_moves = 0;
  std::uint64_t seed = 0;
};

/// Simulated annealing over order, stage boundaries and bitwidths at one pair of micro-batch sizes.
/// A primal heuristic: it finds the incumbent that lets the exact search prune, and proves nothing.
/// Deterministic for a seed unless the deadline cuts it short.
/// @return the best plan that passes find_violation, if any was found.
std::optional<Candidate> local_search(const Instance& instance, const LocalSearchSetting& setting,
                                      const Deadline& deadline, const Candidate* start = nullptr);

}  // namespace tessera::solver
