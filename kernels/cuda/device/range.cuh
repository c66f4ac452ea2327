#pragma once

#include "real.cuh"
#include "reduce.cuh"
#include "tessera/kernels/scale.h"

namespace tessera::kernels::cuda {

/// Smallest and largest of some numbers; one that is not finite makes `finite` false for good.
struct Range {
  float min, max;
  bool finite;
};

struct Widen {
  TESSERA_DEVICE Range operator()(const Range& a, const Range& b) const {
    return {fminf(a.min, b.min), fmaxf(a.max, b.max), a.finite && b.finite};
  }
};

/// scale[group] and zero_point[group] of every group, from its range; Threads as in
/// group_moments_kernel.
///
/// grid [groups * Threads / kReduceThreads], block [kReduceThreads].
template <int Threads>
__global__ void choose_scales_kernel(const Segments groups, QuantFormat format, float* scale,
                                     std::uint8_t* zero_point) {
  const std::int64_t index =
      (static_cast<std::int64_t>(blockIdx.x) * kReduceThreads + threadIdx.x) / Threads;
  const bool inside = index < groups.rows * groups.per_row;
  const float infinity = __uint_as_float(0x7f800000u);
  Range mine{infinity, -infinity, true};
  if (inside) {
    const Segment group = segment_of(groups, index);
    each_value(
        group.data, groups.type, group.count, threadIdx.x % Threads, Threads, [&](float value) {
          mine = {fminf(mine.min, value), fmaxf(mine.max, value), mine.finite && is_finite(value)};
        });
  }
  const Range range = reduce<Threads>(mine, Widen{});
  if (!inside || threadIdx.x % Threads != 0) return;
  const double nan = __uint_as_float(0x7fc00000u);
  const Scale chosen =
      range.finite ? scale_of(range.min, range.max, format) : scale_of(nan, nan, format);
  scale[index] = chosen.scale;
  zero_point[index] = chosen.zero_point;
}

/// scale[row] = max |x| / 127 and the codes of the row; columns of is_outlier (may be null) and
/// numbers of at least `threshold` (0: none) are left out.
///
/// grid [rows], block [kReduceThreads].
TESSERA_GLOBAL void quantise_rows_kernel(const void* x, Real type, std::int64_t columns,
                                         std::int64_t stride, const std::uint8_t* is_outlier,
                                         float threshold, std::int8_t* codes, float* scale) {
  __shared__ float shared_scale;
  const std::int64_t row = blockIdx.x;
  const auto left_out = [=](std::int64_t c, float size) {
    return (is_outlier != nullptr && is_outlier[c] != 0) || (threshold > 0 && size >= threshold);
  };
  Range mine{0, 0, true};
  for (std::int64_t c = threadIdx.x; c < columns; c += kReduceThreads) {
    const float size = fabsf(load_real(x, type, row * stride + c));
    if (left_out(c, size)) continue;
    mine = {0, fmaxf(mine.max, size), mine.finite && is_finite(size)};
  }
  const Range range = reduce<kReduceThreads>(mine, Widen{});
  if (threadIdx.x == 0) {
    float chosen = range.finite ? range.max / 127 : __uint_as_float(0x7fc00000u);
    if (chosen == 0) chosen = 1;
    scale[row] = shared_scale = chosen;
  }
  sync_block();
  for (std::int64_t c = threadIdx.x; c < columns; c += kReduceThreads) {
    const float value = load_real(x, type, row * stride + c);
    const float steps = left_out(c, fabsf(value)) ? 0 : rintf(value / shared_scale);
    const float low = steps > -127 ? steps : -127;  // also where it is NaN
    codes[row * columns + c] = static_cast<std::int8_t>(low < 127 ? low : 127);
  }
}

}  // namespace tessera::kernels::cuda
