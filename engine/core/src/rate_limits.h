#pragma once

namespace tessera {

/// Faster than any memory or link that exists; a number above them is a slip of the unit.
inline constexpr double kMaxBytesPerS = 1e15;
inline constexpr double kMaxGbps = 8e6;

}  // namespace tessera
