#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "value.h"

namespace tessera::chat {

inline constexpr std::size_t kMostText = 64 << 20;  ///< bytes of what is printed, and of any text
inline constexpr std::int64_t kMostItems = 1'000'000;  ///< of a list

/// a op b of "+", "-", "*", "/", "//" and "%". @throws Error with the line
Value computed(const std::string& op, const Value& a, const Value& b, int line);
/// Whether a word b: "==", "<", "in", "not in", ...
bool holds(const std::string& word, const Value& a, const Value& b);
/// Jinja's range(first, last, by).
Value range_of(const Arguments& given);

}  // namespace tessera::chat
