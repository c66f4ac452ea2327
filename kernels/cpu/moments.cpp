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

namespace {

/// Calls f(numbers, index of the group) for every group of the rows.
template <class F>
Status for_groups(Matrix matrix, Rows rows, std::int64_t group_size, const void* out, const F& f) {
  if (!cpu::valid(matrix) || !cpu::valid(rows, matrix.rows) || group_size < 0 || out == nullptr) {
    return Status::invalid_argument;
  }
  const std::int64_t size = group_size == 0 ? matrix.columns : group_size;
  const std::int64_t groups = num_groups(matrix.columns, group_size);
  for (std::int64_t row = rows.first; row < rows.last; ++row) {
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t first = g * size;
      const std::int64_t left = matrix.columns - first;
      f(cpu::Numbers{cpu::at(matrix.data, matrix.type, row * matrix.stride + first), matrix.type,
                     left < size ? left : size},
        row * groups + g);
    }
  }
  return Status::ok;
}

}  // namespace

Status group_moments(Matrix matrix, Rows rows, std::int64_t group_size, Moments* out) {
  return for_groups(matrix, rows, group_size, out,
                    [out](cpu::Numbers x, std::int64_t i) { cpu::chosen().moments(x, out + i); });
}

Status group_ranges(Matrix matrix, Rows rows, std::int64_t group_size, Range* out) {
  return for_groups(matrix, rows, group_size, out,
                    [out](cpu::Numbers x, std::int64_t i) { out[i] = cpu::chosen().range(x); });
}

}  // namespace tessera::kernels
