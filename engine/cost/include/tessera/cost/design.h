#pragma once

#include <cstddef>
#include <vector>

#include "tessera/core/device.h"
#include "tessera/core/enum_names.h"
#include "tessera/cost/op.h"

namespace tessera::cost {

/// What a choice of points to measure makes small.
enum class Design {
  least_variance,  ///< the mean variance of what a calibration says of all candidates
  d_optimal,       ///< the volume of its parameters' confidence region (greedy)
};

/// Indices of `count` candidates in the order in which to measure them: each the one that serves
/// the design best after those before it, so the first few are a design of their own. Candidates
/// are products and attention, of any dtypes; the parameters are those that a calibration moves
/// (times, rates and bandwidths of a product's kernels and what they leave over; the terms of
/// attention), a priori as uncertain as between the GPUs that were measured, for each dtype and
/// phase anew. No latency is looked at. Deterministic. Memory grows with the candidates' square.
/// @throws Error{invalid_argument} for more points than candidates, or a candidate of another op.
std::vector<std::size_t> design_points(const Device& device, const std::vector<OpQuery>& candidates,
                                       std::size_t count, Design design);

}  // namespace tessera::cost

namespace tessera {

template <>
inline constexpr auto kEnumNames<cost::Design> = enum_names<cost::Design>(
    {{cost::Design::least_variance, "least_variance"}, {cost::Design::d_optimal, "d_optimal"}});

}  // namespace tessera
