#include "ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "in_parallel.h"
#include "tessera/core/error.h"
#include "tessera/indicator/variance.h"
#include "tessera/kernels/moments.h"

namespace tessera::indicator {
namespace {

using kernels::Moments;
using kernels::Range;
using weights::LinearWeight;

constexpr std::int64_t kSliceWeights = 1 << 18;  // enough to start a thread for, and fits in L2

struct Slice {
  std::size_t job;
  std::int64_t first, last;  ///< rows
};

// What a slice adds to its matrix.
struct SliceRanges {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double weighted = 0, widest_row = 0;
  bool finite = true;
  std::int64_t num_not_finite = 0;
};

std::optional<kernels::Real> real_of(weights::DType dtype) {
  switch (dtype) {
    case weights::DType::f32:
      return kernels::Real::f32;
    case weights::DType::f16:
      return kernels::Real::f16;
    case weights::DType::bf16:
      return kernels::Real::bf16;
    default:
      return std::nullopt;
  }
}

void require(kernels::Status status, const LinearWeight& linear) {
  if (status == kernels::Status::ok) return;
  throw Error(ErrorCode::internal, fmt::format("ranges of {}: {}", weights::describe(linear),
                                               kernels::describe(status)));
}

// The rows of a slice: in the file where they lie there as numbers that kernels read, else a copy.
kernels::Matrix rows_of(const weights::Weights& weights, const LinearWeight& linear,
                        const Slice& slice, std::vector<float>& copy) {
  const std::int64_t rows = slice.last - slice.first, columns = linear.in_features;
  const std::optional<kernels::Real> type = real_of(linear.tensor->dtype);
  if (type && linear.is_contiguous()) {
    const std::int64_t at = linear.offset + linear.stored_row(slice.first) * columns;
    return {weights.bytes(*linear.tensor).data() + at * kernels::size_of(*type), *type, rows,
            columns, columns};
  }
  copy.resize(static_cast<std::size_t>(rows * columns));
  weights::read_linear_rows_f32(weights, linear, slice.first, rows, copy);
  return {copy.data(), kernels::Real::f32, rows, columns, columns};
}

// Sums up the groups of a slice that have scales of their own; those of a row are `width` columns.
void add_groups(SliceRanges& part, const kernels::Matrix& rows, std::int64_t width,
                const RangeJob& job, bool symmetric) {
  const std::int64_t groups = kernels::num_groups(rows.columns, width);
  std::vector<double> input_sums(static_cast<std::size_t>(groups));
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t last = std::min((g + 1) * width, rows.columns);
    input_sums[static_cast<std::size_t>(g)] = job.input_sums[static_cast<std::size_t>(last)] -
                                              job.input_sums[static_cast<std::size_t>(g * width)];
  }
  std::vector<kernels::Range> found(static_cast<std::size_t>(rows.rows * groups));
  require(kernels::group_ranges(rows, {0, rows.rows}, width, found.data()), *job.linear);
  double weighted = 0, widest = 0;
  bool finite = true;  // both ends are NaN where a weight is not
  const Range* group = found.data();
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    for (const double input_sum : input_sums) {
      const double min = group->min, max = group->max;
      const double range = range_of(min, max, symmetric);
      weighted += range * range * input_sum;
      widest = std::max(widest, max - min);
      finite = finite && max >= min;
      ++group;
    }
  }
  part.weighted = weighted;
  part.widest_row = widest;
  part.finite = finite;
}

SliceRanges ranges_of_slice(const weights::Weights& weights, const RangeJob& job,
                            const Slice& slice, const quant::Scheme& scheme) {
  thread_local std::vector<float> copy;  // a megabyte, which would be fresh pages every time
  const kernels::Matrix rows = rows_of(weights, *job.linear, slice, copy);
  const std::int64_t count = rows.rows * rows.columns;
  SliceRanges part;
  if (scheme.granularity == quant::Granularity::tensor) {
    Range all{};
    require(kernels::group_ranges({rows.data, rows.type, 1, count, count}, {0, 1}, 0, &all),
            *job.linear);
    part.min = all.min;
    part.max = all.max;
    part.finite = all.max >= all.min;
  } else {
    const bool grouped = scheme.granularity == quant::Granularity::group;
    add_groups(part, rows, grouped ? scheme.group_size : rows.columns, job, scheme.symmetric);
  }
  if (!part.finite) {
    Moments m;
    require(kernels::moments(rows.data, rows.type, count, &m), *job.linear);
    part.num_not_finite = m.num_not_finite;
  }
  return part;
}

std::vector<Slice> slices_of(const std::vector<RangeJob>& jobs) {
  std::vector<Slice> slices;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const LinearWeight& linear = *jobs[job].linear;
    const std::int64_t rows = std::max<std::int64_t>(1, kSliceWeights / linear.in_features);
    for (std::int64_t first = 0; first < linear.num_rows; first += rows) {
      slices.push_back({job, first, std::min(first + rows, linear.num_rows)});
    }
  }
  return slices;
}

void merge(SliceRanges& into, const SliceRanges& part) {
  into.min = std::min(into.min, part.min);
  into.max = std::max(into.max, part.max);
  into.weighted += part.weighted;
  into.widest_row = std::max(into.widest_row, part.widest_row);
  into.num_not_finite += part.num_not_finite;
}

}  // namespace

std::vector<Ranges> ranges_of(const weights::Weights& weights, const std::vector<RangeJob>& jobs,
                              const quant::Scheme& scheme, int num_threads) {
  const std::vector<Slice> slices = slices_of(jobs);
  std::vector<SliceRanges> parts(slices.size()), whole(jobs.size());
  in_parallel(num_threads, static_cast<std::int64_t>(slices.size()), [&](std::int64_t i) {
    const Slice& slice = slices[static_cast<std::size_t>(i)];
    parts[static_cast<std::size_t>(i)] = ranges_of_slice(weights, jobs[slice.job], slice, scheme);
  });
  for (std::size_t i = 0; i < slices.size(); ++i) merge(whole[slices[i].job], parts[i]);

  std::vector<Ranges> result(jobs.size());
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    const LinearWeight& linear = *jobs[job].linear;
    SliceRanges& part = whole[job];
    if (part.num_not_finite > 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} of {} weights of {} are NaN or infinite, and so would be "
                              "every indicator of them",
                              linear.tensor->file, part.num_not_finite, linear.parameters(),
                              weights::describe(linear)),
                  linear.tensor->name);
    }
    if (scheme.granularity == quant::Granularity::tensor) {
      const double range = range_of(part.min, part.max, scheme.symmetric);
      part.weighted =
          range * range * static_cast<double>(linear.num_rows) * jobs[job].input_sums.back();
    }
    result[job] = {part.weighted, part.widest_row};
  }
  return result;
}

}  // namespace tessera::indicator
