#pragma once

#include "intrinsics.cuh"

#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#define TESSERA_HAS_CUB 1
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#else
#define TESSERA_HAS_CUB 0
#endif

namespace tessera::kernels::cuda {

inline constexpr int kReduceThreads = 256;

/// The reduction of one value of each of `Threads` neighbouring threads (a warp, or the block of
/// kReduceThreads) with `combine`, in an order that depends on nothing; the first of them gets it.
/// All threads of the block must call. CUB does it where there is CUB; the emulator and NVRTC have
/// a tree in shared memory.
template <int Threads, class T, class Combine>
TESSERA_DEVICE T reduce(const T& value, const Combine& combine) {
  static_assert(Threads == 32 || Threads == kReduceThreads);
#if TESSERA_HAS_CUB
  if constexpr (Threads == 32) {
    using Reduce = cub::WarpReduce<T>;
    __shared__ typename Reduce::TempStorage storage[kReduceThreads / 32];
    return Reduce(storage[threadIdx.x / 32]).Reduce(value, combine);
  } else {
    using Reduce = cub::BlockReduce<T, Threads>;
    __shared__ typename Reduce::TempStorage storage;
    return Reduce(storage).Reduce(value, combine);
  }
#else
  __shared__ __align__(16) unsigned char bytes[kReduceThreads * sizeof(T)];
  T* values = reinterpret_cast<T*>(bytes);
  values[threadIdx.x] = value;
  sync_block();
  for (int reach = Threads / 2; reach > 0; reach /= 2) {
    if (static_cast<int>(threadIdx.x % Threads) < reach)
      values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + reach]);
    sync_block();
  }
  return values[threadIdx.x];
#endif
}

}  // namespace tessera::kernels::cuda
