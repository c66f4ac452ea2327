#pragma once

#include "../packed.h"
#include "vector.h"

// How a product with weights in groups goes over the columns. Sums run over one segment at a time,
// in the order of the columns, and the segments' sums are added up in theirs: an order that does
// not depend on how many tokens a call has, nor on how much fits into a strip.
namespace tessera::kernels::cpu {
namespace {

/// Consecutive units of one group. Groups are cut into segments so that the sums stay short.
struct Segment {
  std::int64_t group, first_column, columns, first_unit, units, at;  ///< at: column in the strip
};

constexpr int kSegmentColumns = 128, kMaxSegments = 512;

/// The columns that a call works through at a time: whole segments.
struct Strip {
  Segment segments[kMaxSegments];
  int num_segments = 0;
  std::int64_t columns = 0;  ///< with padding
};

/// Groups of `group_size` columns; each begins a unit.
struct Groups {
  std::int64_t columns, group_size, groups, units_per_group;
};

/// Cuts the columns of some weights into strips of about equal length; each has at most
/// `max_columns`, or is a single segment.
class Strips {
 public:
  Strips(Groups groups, int unit_columns, std::int64_t max_columns)
      : groups_(groups), unit_columns_(unit_columns) {
    const std::int64_t strips = (groups.columns + max_columns - 1) / max_columns;
    const std::int64_t even = (groups.columns + strips - 1) / strips;
    length_ = (even + 31) / 32 * 32;  // whole units of every kind
  }

  bool next(Strip* strip) {
    strip->num_segments = 0;
    strip->columns = 0;
    while (group_ < groups_.groups && strip->num_segments < kMaxSegments) {
      const std::int64_t all = groups_.columns - group_ * groups_.group_size;
      const std::int64_t left = (all < groups_.group_size ? all : groups_.group_size) - inside_;
      const std::int64_t count = left < kSegmentColumns ? left : kSegmentColumns;
      const std::int64_t units = (count + unit_columns_ - 1) / unit_columns_;
      const std::int64_t padded = units * unit_columns_;
      if (strip->columns > 0 && strip->columns + padded > length_) break;
      strip->segments[strip->num_segments++] = {
          group_, group_ * groups_.group_size + inside_,
          count,  group_ * groups_.units_per_group + inside_ / unit_columns_,
          units,  strip->columns};
      strip->columns += padded;
      inside_ += count;
      if (count == left) {
        ++group_;
        inside_ = 0;
      }
    }
    return strip->num_segments > 0;
  }

 private:
  Groups groups_;
  int unit_columns_;
  std::int64_t length_, group_ = 0, inside_ = 0;
};

/// A segment of a token in f32, zeros up to the next multiple of 64 columns.
template <class Isa>
TESSERA_KERNELS_INLINE void load_segment(Matrix x, std::int64_t token, const Segment& s,
                                         float* to) {
  Isa::to_f32(at(x.data, x.type, token * x.stride + s.first_column), x.type, s.columns, to);
  for (std::int64_t c = s.columns; c % 64 != 0; ++c) to[c] = 0;
}

/// The sum of what load_segment() wrote.
template <class Isa>
TESSERA_KERNELS_INLINE float sum_of(const float* row, std::int64_t columns) {
  using Floats = typename Simd<Isa::kLanes>::Floats;
  Floats parts[4] = {};
  for (std::int64_t c = 0; c < columns; c += 4 * Isa::kLanes) {
    for (int i = 0; i < 4; ++i) parts[i] += read<Floats>(row + c + i * Isa::kLanes);
  }
  const Floats all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  double sum = 0;
  for (int i = 0; i < Isa::kLanes; ++i) sum += static_cast<double>(all[i]);
  return static_cast<float>(sum);
}

}  // namespace
}  // namespace tessera::kernels::cpu
