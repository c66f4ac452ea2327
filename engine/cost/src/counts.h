#pragma once

#include <cstdint>

namespace tessera::cost {

inline constexpr double kFp16Bytes = 2;
inline constexpr double kFp32Bytes = 4;

inline double count(std::int64_t value) { return static_cast<double>(value); }

}  // namespace tessera::cost
