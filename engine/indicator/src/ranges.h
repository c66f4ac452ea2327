#pragma once

#include <cstdint>
#include <vector>

#include "tessera/core/thread_pool.h"
#include "tessera/quant/scheme.h"
#include "tessera/weights/linears.h"

namespace tessera::indicator {

/// A matrix whose ranges are wanted, and what its inputs count.
struct RangeJob {
  const weights::LinearWeight* linear = nullptr;
  std::vector<double> input_sums;  ///< as indicator::input_sums gives them
};

/// What one pass over a matrix leaves.
struct Ranges {
  double weighted = 0;    ///< sum over its scales of range^2 times the sum of G over their weights
  double widest_row = 0;  ///< the largest max - min of an output channel; granularity channel only
};

/// Ranges of all jobs. Matrices are cut into slices of rows that do not depend on the number of
/// threads, and neither does the result.
/// @throws Error{invalid_argument} naming a matrix with weights that are not finite
std::vector<Ranges> ranges_of(const weights::Weights& weights, const std::vector<RangeJob>& jobs,
                              const quant::Scheme& scheme, ThreadPool& threads);

}  // namespace tessera::indicator
