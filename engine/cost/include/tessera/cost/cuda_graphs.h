#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tessera/cost/kernel_set.h"

namespace tessera::cost {

/// A step runs from the next graph that was captured: so many rows do the work of that many. Beyond
/// the last, and without any, they are as many as they are.
/// @param captured rows, ascending
template <typename Rows, typename Size>
Rows padded_to(const std::vector<Size>& captured, Rows rows) {
  const auto at = std::lower_bound(captured.begin(), captured.end(), rows);
  return at == captured.end() ? rows : static_cast<Rows>(*at);
}

/// Rows that an engine captures graphs for, ascending: those of its kernel set, as multiples of the
/// `verified` tokens that a request has in a step with drafts, up to twice the rows of all `seats`
/// and to the budget of a step (vllm/config/vllm.py).
std::vector<std::int64_t> captured_rows(const KernelSet& kernels, std::int64_t token_budget,
                                        std::int64_t seats, std::int64_t verified);

}  // namespace tessera::cost
