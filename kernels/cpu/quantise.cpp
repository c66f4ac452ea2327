#include "tessera/kernels/quantise.h"

#include <limits>

#include "check.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

/// The smallest number of `type` that is not below `value` (not negative, may be Inf or NaN).
float round_up(double value, Real type) {
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

struct Scale {
  float scale;
  std::uint8_t zero_point;
};

Scale scale_of(double min, double max, QuantFormat format) {
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

/// Calls f(row, first column, count, index of the group) for every group in `rows`.
template <class F>
void for_groups(Rows rows, std::int64_t columns, std::int64_t group_size, const F& f) {
  const std::int64_t size = group_size == 0 ? columns : group_size;
  const std::int64_t groups = num_groups(columns, group_size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * size;
      f(row, first, columns - first < size ? columns - first : size, row * groups + g);
    }
  }
}

int zero_point_of(QuantFormat format, const std::uint8_t* zero_point, std::int64_t group) {
  return zero_point == nullptr ? symmetric_zero_point(format.bitwidth) : zero_point[group];
}

}  // namespace

Status scale_of_range(double min, double max, QuantFormat format, float* scale,
                      std::uint8_t* zero_point) {
  if (!cpu::valid(format) || scale == nullptr || zero_point == nullptr) {
    return Status::invalid_argument;
  }
  const Scale result = scale_of(min, max, format);
  *scale = result.scale;
  *zero_point = result.zero_point;
  return Status::ok;
}

Status choose_scales(Matrix matrix, Rows rows, QuantFormat format, float* scale,
                     std::uint8_t* zero_point) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || !cpu::valid(format) ||
      scale == nullptr || zero_point == nullptr) {
    return Status::invalid_argument;
  }
  for_groups(
      rows, matrix.columns, format.group_size,
      [&](std::int64_t row, std::int64_t first, std::int64_t count, std::int64_t group) {
        const cpu::Range range = cpu::chosen().range(
            {cpu::at(matrix.data, matrix.type, row * matrix.stride + first), matrix.type, count});
        const Scale result = scale_of(range.min, range.max, format);
        scale[group] = result.scale;
        zero_point[group] = result.zero_point;
      });
  return Status::ok;
}

Status quantise(Matrix matrix, Rows rows, QuantFormat format, const float* scale,
                const std::uint8_t* zero_point, Rounding rounding, std::uint64_t seed,
                std::uint8_t* codes) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || !cpu::valid(format) ||
      scale == nullptr || (zero_point == nullptr && !format.symmetric) || codes == nullptr ||
      (rounding != Rounding::nearest && rounding != Rounding::stochastic)) {
    return Status::invalid_argument;
  }
  for_groups(
      rows, matrix.columns, format.group_size,
      [&](std::int64_t row, std::int64_t first, std::int64_t count, std::int64_t group) {
        const std::int64_t index = row * matrix.columns + first;
        const cpu::QuantiseOptions options{scale[group], zero_point_of(format, zero_point, group),
                                           format,       rounding,
                                           seed,         static_cast<std::uint64_t>(index)};
        cpu::chosen().quantise(
            {cpu::at(matrix.data, matrix.type, row * matrix.stride + first), matrix.type, count},
            options, codes + index);
      });
  return Status::ok;
}

Status dequantise(const std::uint8_t* codes, Rows rows, std::int64_t columns, QuantFormat format,
                  const float* scale, const std::uint8_t* zero_point, float* out) {
  if (codes == nullptr || !cpu::valid(format) || !cpu::valid_shape(rows.last, columns) ||
      !cpu::valid(rows, rows.last) || scale == nullptr ||
      (zero_point == nullptr && !format.symmetric) || out == nullptr) {
    return Status::invalid_argument;
  }
  for_groups(rows, columns, format.group_size,
             [&](std::int64_t row, std::int64_t first, std::int64_t count, std::int64_t group) {
               const std::int64_t index = row * columns + first;
               cpu::chosen().dequantise(codes + index, count, scale[group],
                                        zero_point_of(format, zero_point, group), out + index);
             });
  return Status::ok;
}

}  // namespace tessera::kernels
