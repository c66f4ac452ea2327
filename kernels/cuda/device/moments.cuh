#pragma once

#include "real.cuh"
#include "reduce.cuh"
#include "tessera/kernels/moments.h"

namespace tessera::kernels::cuda {

struct Merge {
  TESSERA_DEVICE Moments operator()(const Moments& a, const Moments& b) const {
    return merge(a, b);
  }
};

/// Moments of what one thread sees. Sums of differences from a value of the data, in f32 for 64
/// numbers at a time (few GPUs have f64 units to keep up with their memory), then merged in f64.
class ThreadMoments {
 public:
  TESSERA_DEVICE void add(float x) {
    if (!is_finite(x)) {
      ++total_.num_not_finite;
      return;
    }
    if (count_ == 0) pivot_ = low_ = high_ = x;
    const float apart = x - pivot_;
    if (!(fabsf(apart) < 1e18f)) {  // its square would overflow
      flush();
      Moments one;
      one.min = one.max = one.mean = x;
      one.count = 1;
      total_ = merge(total_, one);
      return;
    }
    low_ = fminf(low_, x);
    high_ = fmaxf(high_, x);
    sum_ += apart;
    squares_ += apart * apart;
    if (++count_ == kBatch) flush();
  }

  TESSERA_DEVICE Moments result() {
    flush();
    return total_;
  }

 private:
  static constexpr int kBatch = 64;

  TESSERA_DEVICE void flush() {
    if (count_ == 0) return;
    Moments batch;
    const double n = count_, mean = sum_ / n, variance = squares_ / n - mean * mean;
    batch.min = low_;
    batch.max = high_;
    batch.mean = pivot_ + mean;
    batch.variance = variance > 0 ? variance : 0;
    batch.count = count_;
    total_ = merge(total_, batch);
    sum_ = squares_ = 0;
    count_ = 0;
  }

  Moments total_;
  float pivot_ = 0, low_ = 0, high_ = 0, sum_ = 0, squares_ = 0;
  int count_ = 0;
};

/// partial[block] = moments of the block's share of x.
///
/// grid [blocks], block [kReduceThreads].
TESSERA_GLOBAL void partial_moments_kernel(const void* x, Real type, std::int64_t count,
                                           Moments* partial) {
  ThreadMoments mine;
  each_value(x, type, count, static_cast<std::int64_t>(blockIdx.x) * kReduceThreads + threadIdx.x,
             static_cast<std::int64_t>(gridDim.x) * kReduceThreads,
             [&](float value) { mine.add(value); });
  const Moments all = reduce<kReduceThreads>(mine.result(), Merge{});
  if (threadIdx.x == 0) partial[blockIdx.x] = all;
}

/// *out = the partial moments together. One block of kReduceThreads.
TESSERA_GLOBAL void merge_moments_kernel(const Moments* partial, int count, Moments* out) {
  Moments mine;
  for (int i = threadIdx.x; i < count; i += kReduceThreads) mine = merge(mine, partial[i]);
  const Moments all = reduce<kReduceThreads>(mine, Merge{});
  if (threadIdx.x == 0) *out = all;
}

/// out[segment]: a warp (Threads = 32) or a block for each.
///
/// grid [segments * Threads / kReduceThreads], block [kReduceThreads].
template <int Threads>
__global__ void group_moments_kernel(const Segments segments, Moments* out) {
  const std::int64_t index =
      (static_cast<std::int64_t>(blockIdx.x) * kReduceThreads + threadIdx.x) / Threads;
  const bool inside = index < segments.rows * segments.per_row;
  ThreadMoments mine;
  if (inside) {
    const Segment segment = segment_of(segments, index);
    each_value(segment.data, segments.type, segment.count, threadIdx.x % Threads, Threads,
               [&](float value) { mine.add(value); });
  }
  const Moments all = reduce<Threads>(mine.result(), Merge{});
  if (inside && threadIdx.x % Threads == 0) out[index] = all;
}

}  // namespace tessera::kernels::cuda
