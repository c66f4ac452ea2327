#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::serving {

/// A number in [0, 1) that depends on seed, request and step alone: what a batch looked like, in
/// what order requests were visited, and which steps were skipped over change nothing. 53 bits.
double draw_at(std::uint64_t seed, std::int64_t request, std::int64_t step);

/// How many drafts are accepted in a step: at least i with probability rates[i - 1], exactly (to
/// 2^-53). `rates` are cumulative, as check_rates allows them. O(drafts).
std::int64_t accepted_drafts(std::uint64_t seed, std::int64_t request, std::int64_t step,
                             std::span<const double> rates);

/// Cumulative rates [num_drafts] from what an engine is told: one number a is the rate of each
/// draft whose predecessors passed, so a, a^2, a^3, ...; a list is cumulative already, and drafts
/// beyond its end may not be asked for. @throws Error naming `path`, as check_rates
std::vector<double> cumulative_rates(std::span<const double> acceptance, std::int64_t num_drafts,
                                     const std::string& path);

/// @throws Error{out_of_range} naming `path` unless each rate is in [0, 1] and no more than the one
///   before it
void check_rates(std::span<const double> rates, const std::string& path);

}  // namespace tessera::serving
