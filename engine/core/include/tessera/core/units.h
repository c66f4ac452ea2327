#pragma once

#include <cstdint>
#include <string>

namespace tessera {

inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// Largest integer that a Lua number or a JSON double carries exactly.
inline constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

std::string format_bytes(double bytes);      ///< "12.14 GiB", "588.0 MiB", "17 B"
std::string format_seconds(double seconds);  ///< "19.70 s", "4.31 ms", "12.0 us", "2 h 03 min"
std::string format_count(double count);      ///< "30.0 B", "350 M" (parameters)
std::string format_number(double value, int digits = 6);  ///< shortest text with that many digits

/// ceil(a / b) for a >= 0, b >= 1.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace tessera
