#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::solver {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kGb = 1e9;            ///< bytes of the GB that instance files count in
inline constexpr double kNumberSlack = 1e-6;  ///< relative, for numbers re-computed by the checker

/// Whether a printed number is the re-computed one.
inline bool near(double a, double b) {
  return std::fabs(a - b) <= kNumberSlack * std::max({1e-9, std::fabs(a), std::fabs(b)});
}

}  // namespace tessera::solver
