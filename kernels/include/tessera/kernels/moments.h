#pragma once

#include <cstdint>
#include <limits>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Range and moments of a set of numbers. NaN and Inf are counted and otherwise left out.
struct Moments {
  double min = std::numeric_limits<double>::infinity();   ///< Inf of an empty set
  double max = -std::numeric_limits<double>::infinity();  ///< -Inf of an empty set
  double mean = 0;
  double variance = 0;              ///< of the population: sum of (x - mean)^2 / count
  std::int64_t count = 0;           ///< of the finite numbers
  std::int64_t num_not_finite = 0;  ///< NaN, Inf and -Inf
};

/// The moments of two sets together (Chan, Golub and LeVeque, "Updating formulae and a pairwise
/// algorithm for computing sample variances", 1979, eq. 2.1).
TESSERA_KERNELS_INLINE Moments merge(const Moments& a, const Moments& b) {
  Moments all;
  all.min = a.min < b.min ? a.min : b.min;
  all.max = a.max > b.max ? a.max : b.max;
  all.count = a.count + b.count;
  all.num_not_finite = a.num_not_finite + b.num_not_finite;
  if (all.count == 0) return all;
  const double n = static_cast<double>(all.count);
  const double part_a = static_cast<double>(a.count) / n;
  const double part_b = static_cast<double>(b.count) / n;
  const double apart = b.mean - a.mean;
  all.mean = a.count >= b.count ? a.mean + apart * part_b : b.mean - apart * part_a;
  all.variance = a.variance * part_a + b.variance * part_b + apart * apart * part_a * part_b;
  return all;
}

/// Moments of `count` numbers of `type` at `x`, which need not be aligned. One pass; the variance
/// is stable: its error stays near that of a sum in f32 of the differences from a value among the
/// data, however large the mean is.
Status moments(const void* x, Real type, std::int64_t count, Moments* out);

/// Moments of every group of `group_size` consecutive columns (0: of the whole row), shape
/// [matrix.rows][num_groups(columns, group_size)].
Status group_moments(Matrix matrix, Rows rows, std::int64_t group_size, Moments* out);

/// Smallest and largest of a set; both NaN where a number of it is not finite.
struct Range {
  float min, max;
};

/// Ranges alone, of the same groups: several times as fast as their moments.
Status group_ranges(Matrix matrix, Rows rows, std::int64_t group_size, Range* out);

/// Smallest and largest of every `group_size` codes of [num_groups][group_size]; fast for groups of
/// 16 and 32, those of ggml's blocks.
Status code_ranges(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                   std::int8_t* min, std::int8_t* max);

}  // namespace tessera::kernels
