#include "tessera/kernels/moments.h"

#include "check.h"
#include "tessera/kernels/quantise.h"
#include "versions.h"

namespace tessera::kernels {

Status moments(const void* x, Real type, std::int64_t count, Moments* out) {
  if (x == nullptr || out == nullptr || !cpu::valid(type) || !cpu::valid_shape(1, count)) {
    return Status::invalid_argument;
  }
  cpu::chosen().moments({x, type, count}, out);
  return Status::ok;
}

Status group_moments(Matrix matrix, Rows rows, std::int64_t group_size, Moments* out) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || group_size < 0 || out == nullptr) {
    return Status::invalid_argument;
  }
  const std::int64_t size = group_size == 0 ? matrix.columns : group_size;
  const std::int64_t groups = num_groups(matrix.columns, group_size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * size;
      const std::int64_t left = matrix.columns - first;
      cpu::chosen().moments({cpu::at(matrix.data, matrix.type, row * matrix.stride + first),
                             matrix.type, left < size ? left : size},
                            out + row * groups + g);
    }
  }
  return Status::ok;
}

Status group_ranges(Matrix matrix, Rows rows, std::int64_t group_size, Range* out) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || group_size < 0 || out == nullptr) {
    return Status::invalid_argument;
  }
  const bool whole = group_size == 0 || group_size > matrix.columns;
  const std::int64_t size = whole ? matrix.columns : group_size;
  const std::int64_t groups = num_groups(matrix.columns, group_size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    cpu::chosen().ranges(
        {cpu::at(matrix.data, matrix.type, row * matrix.stride), matrix.type, matrix.columns}, size,
        out + row * groups);
  }
  return Status::ok;
}

Status code_ranges(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                   std::int8_t* min, std::int8_t* max) {
  if (codes == nullptr || min == nullptr || max == nullptr ||
      !cpu::valid_shape(num_groups, group_size)) {
    return Status::invalid_argument;
  }
  cpu::chosen().code_ranges(codes, num_groups, group_size, min, max);
  return Status::ok;
}

}  // namespace tessera::kernels
