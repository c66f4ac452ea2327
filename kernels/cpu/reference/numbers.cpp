// The obvious versions of the kernels on rows of numbers; what the fast ones are tested against.
#include <algorithm>
#include <cmath>
#include <limits>

#include "../versions.h"
#include "reference.h"

namespace tessera::kernels::cpu::reference {

// Two passes in double would be more obvious still; one (Welford, "Note on a method for calculating
// corrected sums of squares and products", 1962) reads the numbers once, like the fast version. The
// mean is kept from the first number on: around 1e8 a double has no room for the small steps of a
// mean of numbers that hardly differ.
void moments(Numbers x, Moments* out) {
  Moments m;
  double first = 0, mean = 0, squares = 0;
  for (std::int64_t i = 0; i < x.count; ++i) {
    const double value = load(x.data, x.type, i);
    if (!std::isfinite(value)) {
      ++m.num_not_finite;
      continue;
    }
    ++m.count;
    if (value < m.min) m.min = value;
    if (value > m.max) m.max = value;
    if (m.count == 1) first = value;
    const double off = value - first, before = off - mean;
    mean += before / static_cast<double>(m.count);
    squares += before * (off - mean);
  }
  if (m.count > 0) {
    m.mean = first + mean;
    m.variance = squares / static_cast<double>(m.count);
  }
  *out = m;
}

namespace {

Range range(Numbers x) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  Range range{load(x.data, x.type, 0), load(x.data, x.type, 0)};
  for (std::int64_t i = 0; i < x.count; ++i) {
    const float value = load(x.data, x.type, i);
    if (!std::isfinite(value)) return {kNaN, kNaN};
    if (value < range.min) range.min = value;
    if (value > range.max) range.max = value;
  }
  return range;
}

}  // namespace

void ranges(Numbers x, std::int64_t group_size, Range* out) {
  for (std::int64_t i = 0; i < x.count; i += group_size) {
    const std::int64_t left = x.count - i;
    *out++ = range({at(x.data, x.type, i), x.type, left < group_size ? left : group_size});
  }
}

void code_ranges(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                 std::int8_t* min, std::int8_t* max) {
  for (std::int64_t g = 0; g < num_groups; ++g, codes += group_size) {
    min[g] = *std::min_element(codes, codes + group_size);
    max[g] = *std::max_element(codes, codes + group_size);
  }
}

void quantise(Numbers x, const QuantiseOptions& o, std::uint8_t* codes) {
  for (std::int64_t i = 0; i < x.count; ++i) {
    const bool draws = o.rounding == Rounding::stochastic;
    const auto index = o.first_index + static_cast<std::uint64_t>(i);
    const float uniform = draws ? stochastic_uniform(o.seed, index) : 0;
    codes[i] =
        code_of(load(x.data, x.type, i), o.scale, o.zero_point, o.format, o.rounding, uniform);
  }
}

void dequantise(const std::uint8_t* codes, std::int64_t count, float scale, int zero_point,
                float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = scale * static_cast<float>(codes[i] - zero_point);
  }
}

void quantise_row(Numbers x, const std::uint8_t* is_outlier, std::int8_t* codes, float* scale) {
  float largest = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < x.count; ++i) {
    if (is_outlier != nullptr && is_outlier[i] != 0) continue;
    const float size = std::fabs(load(x.data, x.type, i));
    finite = finite && std::isfinite(size);
    if (size > largest) largest = size;
  }
  *scale = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  if (*scale == 0) *scale = 1;
  for (std::int64_t i = 0; i < x.count; ++i) {
    const bool left_out = is_outlier != nullptr && is_outlier[i] != 0;
    const float steps = left_out ? 0 : std::rint(load(x.data, x.type, i) / *scale);
    const float low = steps > -127 ? steps : -127;  // also where it is NaN
    codes[i] = static_cast<std::int8_t>(low < 127 ? low : 127);
  }
}

}  // namespace tessera::kernels::cpu::reference
