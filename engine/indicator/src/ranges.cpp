#include "ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/indicator/variance.h"
#include "tessera/kernels/quantise.h"
#include "tessera/weights/ranges.h"

namespace tessera::indicator {
namespace {

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
  std::int64_t num_not_finite = 0;
};

// How many of the weights of a slice are NaN or infinite.
std::int64_t count_not_finite(const weights::Weights& weights, const LinearWeight& linear,
                              const Slice& slice) {
  const std::int64_t rows = slice.last - slice.first;
  std::vector<float> values(static_cast<std::size_t>(rows * linear.in_features));
  weights::read_linear_rows_f32(weights, linear, slice.first, rows, values);
  return std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
}

SliceRanges ranges_of_slice(const weights::Weights& weights, const RangeJob& job,
                            const Slice& slice, const quant::Scheme& scheme) {
  const LinearWeight& linear = *job.linear;
  const std::int64_t rows = slice.last - slice.first, columns = linear.in_features;
  const bool grouped = scheme.granularity == quant::Granularity::group;
  const std::int64_t width = grouped ? std::min<std::int64_t>(scheme.group_size, columns) : columns;
  const std::int64_t groups = kernels::num_groups(columns, width);
  std::vector<double> input_sums(static_cast<std::size_t>(groups));
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t last = std::min((g + 1) * width, columns);
    input_sums[static_cast<std::size_t>(g)] = job.input_sums[static_cast<std::size_t>(last)] -
                                              job.input_sums[static_cast<std::size_t>(g * width)];
  }
  std::vector<Range> found(static_cast<std::size_t>(rows * groups));
  weights::ranges_of_rows(weights, linear, slice.first, rows, width, found);
  SliceRanges part;
  bool finite = true;  // both ends are NaN where a weight is not
  const Range* group = found.data();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (const double input_sum : input_sums) {
      const double min = group->min, max = group->max;
      const double range = range_of(min, max, scheme.symmetric);
      part.weighted += range * range * input_sum;
      part.widest_row = std::max(part.widest_row, max - min);
      part.min = std::min(part.min, min);
      part.max = std::max(part.max, max);
      finite = finite && max >= min;
      ++group;
    }
  }
  if (!finite) part.num_not_finite = count_not_finite(weights, linear, slice);
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
                              const quant::Scheme& scheme, ThreadPool& threads) {
  const std::vector<Slice> slices = slices_of(jobs);
  std::vector<SliceRanges> parts(slices.size()), whole(jobs.size());
  threads.run(slices.size(), [&](std::size_t, std::size_t i) {
    parts[i] = ranges_of_slice(weights, jobs[slices[i].job], slices[i], scheme);
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
