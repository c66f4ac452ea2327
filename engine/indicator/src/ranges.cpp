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

// Sums up the groups of a slice that have scales of their own.
void add_groups(SliceRanges& part, const kernels::Matrix& rows, const RangeJob& job,
                const quant::Scheme& scheme) {
  const bool grouped = scheme.granularity == quant::Granularity::group;
  const std::int64_t width = grouped ? scheme.group_size : rows.columns;
  const std::int64_t groups = kernels::num_groups(rows.columns, grouped ? width : 0);
  std::vector<Moments> found(static_cast<std::size_t>(rows.rows * groups));
  require(kernels::group_moments(rows, {0, rows.rows}, grouped ? width : 0, found.data()),
          *job.linear);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Moments& m = found[i];
    const std::int64_t first = static_cast<std::int64_t>(i) % groups * width;
    const std::int64_t last = std::min(first + width, rows.columns);
    part.num_not_finite += m.num_not_finite;
    const double range = range_of(m.min, m.max, scheme.symmetric);
    part.weighted += range * range *
                     (job.input_sums[static_cast<std::size_t>(last)] -
                      job.input_sums[static_cast<std::size_t>(first)]);
    part.widest_row = std::max(part.widest_row, m.max - m.min);
  }
}

SliceRanges ranges_of_slice(const weights::Weights& weights, const RangeJob& job,
                            const Slice& slice, const quant::Scheme& scheme) {
  std::vector<float> copy;
  const kernels::Matrix rows = rows_of(weights, *job.linear, slice, copy);
  SliceRanges part;
  if (scheme.granularity == quant::Granularity::tensor) {
    Moments m;
    require(kernels::moments(rows.data, rows.type, rows.rows * rows.columns, &m), *job.linear);
    part.min = m.min;
    part.max = m.max;
    part.num_not_finite = m.num_not_finite;
  } else {
    add_groups(part, rows, job, scheme);
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
