#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/solver/instance/deadline.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The batch over the stages, ceil(B / N): the micro-batch size that the papers give a plan.
std::int64_t even_share(const Instance& instance, const PlanRequest& request);

/// Pairs of micro-batch sizes (prefill <= decode) worth trying, in ascending order, with what the
/// request fixes. The objective `paper` prices decoding in one micro-batch as a single step, so
/// there the decode size is the even share.
std::vector<std::pair<std::int64_t, std::int64_t>> size_pairs(const Instance& instance,
                                                              const PlanRequest& request);

/// The orders of the whole cluster in which devices of one type stand together, or the one that the
/// request fixes; at most 120.
std::vector<std::vector<std::size_t>> block_orders(const Instance& instance,
                                                   const PlanRequest& request);

/// The instance whose only cost is omega; its plans are ordered by quality and, where that ties, by
/// how evenly layers are spread.
Instance without_latency(const Instance& instance);

/// The plan of least omega at one pair of micro-batch sizes, priced by the instance itself.
PlanResult adabits_at(const Instance& instance, PlanRequest request, std::int64_t prefill_size,
                      std::int64_t decode_size);

}  // namespace tessera::solver
