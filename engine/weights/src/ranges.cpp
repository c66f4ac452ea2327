#include "tessera/weights/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds.h"
#include "convert.h"
#include "tessera/core/error.h"
#include "tessera/kernels/quantise.h"
#include "tessera/weights/tensor.h"

namespace tessera::weights {
namespace {

using kernels::Range;

// Numbers where they lie, aligned or not.
void ranges_of_numbers(kernels::Matrix rows, std::int64_t group_size, const LinearWeight& linear,
                       Range* out) {
  const kernels::Status status = kernels::group_ranges(rows, {0, rows.rows}, group_size, out);
  if (status == kernels::Status::ok) return;
  throw Error(ErrorCode::internal,
              fmt::format("ranges of {}: {}", describe(linear), kernels::describe(status)));
}

// The smallest of the smallest and the largest of the largest; NaN where one is not finite.
Range range_of_pieces(const float* min, const float* max, std::int64_t count) {
  Range range{*min, *max};
  float sum = 0;  // of numbers far below what overflows: not finite where one of them is not
  for (std::int64_t i = 0; i < count; ++i) {
    range.min = min[i] < range.min ? min[i] : range.min;
    range.max = max[i] > range.max ? max[i] : range.max;
    sum += min[i] + max[i];
  }
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  return std::isfinite(sum) ? range : Range{kNaN, kNaN};
}

// Pieces first, then the groups that they make up.
void ranges_of_blocks(const DTypeInfo& info, const std::byte* data, std::int64_t num_rows,
                      std::int64_t columns, std::int64_t group_size, Range* out) {
  const std::int64_t piece = piece_elements(info.dtype);
  const std::int64_t row_pieces = columns / piece, group_pieces = group_size / piece;
  thread_local std::vector<float> min, max;  // fresh pages every time would cost more than the rest
  min.resize(static_cast<std::size_t>(num_rows * row_pieces));
  max.resize(min.size());
  piece_ranges(info.dtype, data, num_rows * columns / info.block_elements, min.data(), max.data());
  for (std::int64_t row = 0; row < num_rows; ++row) {
    const float *low = min.data() + row * row_pieces, *high = max.data() + row * row_pieces;
    for (std::int64_t first = 0; first < row_pieces; first += group_pieces) {
      *out++ =
          range_of_pieces(low + first, high + first, std::min(group_pieces, row_pieces - first));
    }
  }
}

}  // namespace

void ranges_of_rows(const Weights& weights, const LinearWeight& linear, std::int64_t first,
                    std::int64_t num_rows, std::int64_t group_size, std::span<Range> out) {
  const std::int64_t columns = linear.in_features;
  const std::int64_t size = group_size == 0 ? columns : std::min(group_size, columns);
  check_rows(linear, first, num_rows, kernels::num_groups(columns, size), out.size());
  if (num_rows == 0) return;
  const DTypeInfo& info = info_of(linear.tensor->dtype);
  if (linear.is_contiguous() && info.readable) {
    const std::int64_t at = linear.offset + linear.stored_row(first) * columns;
    const std::byte* data =
        weights.bytes(*linear.tensor).data() + at / info.block_elements * info.block_bytes;
    if (const auto type = real_of(info.dtype)) {
      return ranges_of_numbers({data, *type, num_rows, columns, columns}, size, linear, out.data());
    }
    if (info.block_elements > 1 && size % piece_elements(info.dtype) == 0) {
      return ranges_of_blocks(info, data, num_rows, columns, size, out.data());
    }
  }
  thread_local std::vector<float> copy;
  copy.resize(static_cast<std::size_t>(num_rows * columns));
  read_linear_rows_f32(weights, linear, first, num_rows, copy);
  ranges_of_numbers({copy.data(), kernels::Real::f32, num_rows, columns, columns}, size, linear,
                    out.data());
}

}  // namespace tessera::weights
