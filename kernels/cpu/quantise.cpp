#include "tessera/kernels/quantise.h"

#include "check.h"
#include "tessera/kernels/scale.h"
#include "versions.h"

namespace tessera::kernels {
namespace {

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
  for_groups(rows, matrix.columns, format.group_size,
             [&](std::int64_t row, std::int64_t first, std::int64_t count, std::int64_t group) {
               Range range{};
               cpu::chosen().ranges({cpu::at(matrix.data, matrix.type, row * matrix.stride + first),
                                     matrix.type, count},
                                    count, &range);
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
