#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "tessera/kernels/quantise.h"

// The arithmetic of choosing a scale, for CPU and CUDA alike.
namespace tessera::kernels {

/// The smallest number of `type` that is not below `value` (not negative, may be Inf or NaN).
TESSERA_KERNELS_INLINE float round_up(double value, Real type) {
  float rounded = static_cast<float>(value);
  if (rounded < value) {
    rounded = std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) + 1);
  }
  if (type == Real::f32) return rounded;
  const bool half = type == Real::f16;
  const std::uint16_t bits = half ? f32_to_f16(rounded) : f32_to_bf16(rounded);
  const float nearest = half ? f16_to_f32(bits) : bf16_to_f32(bits);
  if (!(nearest < rounded)) return nearest;
  const auto next = static_cast<std::uint16_t>(bits + 1);
  return half ? f16_to_f32(next) : bf16_to_f32(next);
}

/// Of one group.
struct Scale {
  float scale;
  std::uint8_t zero_point;
};

/// What scale_of_range() says.
TESSERA_KERNELS_INLINE Scale scale_of(double min, double max, QuantFormat format) {
  const int middle = symmetric_zero_point(format.bitwidth);
  Scale result{1, static_cast<std::uint8_t>(format.symmetric ? middle : 0)};
  if (!(min <= max) || min - min != 0 || max - max != 0) {  // NaN, Inf or no range at all
    result.scale = std::numeric_limits<float>::quiet_NaN();
    return result;
  }
  const double low = min < 0 ? min : 0, high = max > 0 ? max : 0;
  const double steps = format.symmetric ? middle - 1 : highest_code(format);
  const double span = format.symmetric ? (-low > high ? -low : high) : high - low;
  const float scale = round_up(span / steps, format.scale_type);
  if (scale == 0) return result;
  result.scale = scale;
  if (!format.symmetric) {
    const double zero = rint(-low / static_cast<double>(scale));
    result.zero_point = static_cast<std::uint8_t>(zero < steps ? zero : steps);
  }
  return result;
}

}  // namespace tessera::kernels
