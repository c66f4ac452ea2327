#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/kernels/random.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Codes u are unsigned bytes in [0, 2^bitwidth - 1] and stand for scale * (u - zero_point).
/// Symmetric: zero_point is 2^(bitwidth - 1) and the lowest code 1, so that the range is even.
struct QuantFormat {
  int bitwidth;  ///< 3, 4 or 8
  bool symmetric;
  std::int64_t group_size;  ///< consecutive columns that share a scale; 0: the whole row
  Real scale_type;          ///< what scales are rounded to, upwards, so that nothing clips
};

enum class Rounding {
  nearest,    ///< ties to even
  stochastic  ///< up with the probability of the fraction; see stochastic_uniform
};

/// Groups in a row; the last one may be shorter.
TESSERA_KERNELS_INLINE constexpr std::int64_t num_groups(std::int64_t columns,
                                                         std::int64_t group_size) {
  return group_size == 0 ? 1 : columns / group_size + (columns % group_size != 0 ? 1 : 0);
}

TESSERA_KERNELS_INLINE constexpr int lowest_code(QuantFormat format) {
  return format.symmetric ? 1 : 0;
}
TESSERA_KERNELS_INLINE constexpr int highest_code(QuantFormat format) {
  return (1 << format.bitwidth) - 1;
}
TESSERA_KERNELS_INLINE constexpr int symmetric_zero_point(int bitwidth) {
  return 1 << (bitwidth - 1);
}

/// The code of one value: the definition that every version of quantise() follows bit for bit.
/// `uniform` in [0, 1) is for stochastic rounding only. Values beyond the range get the nearest
/// code, NaN the lowest one.
TESSERA_KERNELS_INLINE std::uint8_t code_of(float value, float scale, int zero_point,
                                            QuantFormat format, Rounding rounding, float uniform) {
  const float steps = value / scale;
  float whole;
  if (rounding == Rounding::nearest) {
    whole = rintf(steps);
  } else {
    whole = floorf(steps);
    // Comparing is exact where floor(steps + uniform) would round its sum.
    if (uniform < steps - whole) whole += 1.0f;
  }
  whole += static_cast<float>(zero_point);
  const float low = static_cast<float>(lowest_code(format));
  const float high = static_cast<float>(highest_code(format));
  whole = whole > low ? whole : low;  // also where it is NaN
  whole = whole < high ? whole : high;
  return static_cast<std::uint8_t>(whole);
}

/// The scale and zero point of values in [min, max], for whoever knows the range (of a tensor: then
/// every row of the arrays below holds the same). Symmetric: scale = max(|min|, |max|) /
/// (2^(bitwidth-1) - 1) (SplitQuant, section 4.2). Asymmetric: scale = (max - min) / (2^bitwidth -
/// 1) with the range widened to hold 0, zero_point = round(-min / scale). A scale that would be 0
/// becomes 1. A range that is not finite, or a scale too large for its type, gives the scale NaN or
/// Inf, and so do the values that are dequantised with it. `zero_point` is always written.
Status scale_of_range(double min, double max, QuantFormat format, float* scale,
                      std::uint8_t* zero_point);

/// Scales and zero points of every group, each [rows][num_groups]. A group that holds NaN or Inf
/// gets the scale NaN: what is not finite is not hidden. `zero_point` is always written.
Status choose_scales(Matrix matrix, Rows rows, QuantFormat format, float* scale,
                     std::uint8_t* zero_point);

/// Codes [rows][columns] of the matrix. `zero_point` may be null where the format is symmetric.
/// `seed` matters for stochastic rounding only; element [row][column] uses
/// stochastic_uniform(seed, row * columns + column).
Status quantise(Matrix matrix, Rows rows, QuantFormat format, const float* scale,
                const std::uint8_t* zero_point, Rounding rounding, std::uint64_t seed,
                std::uint8_t* codes);

/// scale * (code - zero_point), [rows][columns] from `codes` of the same shape.
Status dequantise(const std::uint8_t* codes, Rows rows, std::int64_t columns, QuantFormat format,
                  const float* scale, const std::uint8_t* zero_point, float* out);

}  // namespace tessera::kernels
