#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tessera/core/error.h"

namespace tessera::serving {

/// Time in whole picoseconds. Sums of integers do not depend on their order, so that a stretch of
/// steps taken at once ends at the very tick at which single steps would have ended.
using Ticks = std::int64_t;

/// Sums of ticks times counts.
__extension__ typedef __int128 WideTicks;
__extension__ typedef unsigned __int128 WideSum;

inline constexpr Ticks kTicksPerSecond = 1'000'000'000'000;
/// Runs end before it (104 days): a time and a step more fit into Ticks.
inline constexpr double kLongestRun_s = 9e6;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

inline double to_seconds(Ticks ticks) { return static_cast<double>(ticks) * 1e-12; }

/// The nearest tick. @throws Error{out_of_range} naming `path` for a time that is not finite,
/// negative, or beyond kLongestRun_s.
Ticks to_ticks(double seconds, const std::string& path);

}  // namespace tessera::serving
