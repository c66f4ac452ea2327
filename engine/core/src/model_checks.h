#pragma once

#include <cstdint>
#include <string>

#include "tessera/core/model_shape.h"
#include "tessera/core/units.h"

namespace tessera {

/// Closed range of an architecture field.
struct SizeRange {
  std::int64_t low;
  std::int64_t high;
};

// Far above any model that exists, and low enough that products of three of them fit 64 bits.
inline constexpr SizeRange kSizeRange{1, std::int64_t{1} << 24};
inline constexpr SizeRange kLayersRange{1, 10'000};
inline constexpr SizeRange kHeadsRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kHeadDimRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kExpertsRange{1, std::int64_t{1} << 16};
inline constexpr SizeRange kVocabRange{1, std::int64_t{1} << 28};
inline constexpr SizeRange kTokensRange{1, std::int64_t{1} << 28};
// Beyond this a count is no longer exact in a double, and so not in Lua or JSON.
inline constexpr auto kMaxParameters = static_cast<std::int64_t>(kMaxExactInteger);

/// Refuses a shape whose counts would be inexact or whose parts do not fit together; afterwards
/// every count of ModelShape is positive and free of overflow.
/// @throws Error{invalid_argument, out_of_range} naming `path`.
void check_model_shape(const ModelShape& model, const std::string& path);

}  // namespace tessera
