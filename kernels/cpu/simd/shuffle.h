#pragma once

#include <utility>

#include "vector.h"

// Moving numbers between lanes, and sums across them.
namespace tessera::kernels::cpu {
namespace {

/// Halves of pairs: where lane `lane` of the result comes from in two vectors a, b (lanes of b
/// count from `lanes`) when every run of `width` lanes of a and b is even or odd and the even
/// (odd = 0) or odd ones stay. Runs shorter than 4 lanes stay within their four lanes, which is one
/// instruction.
constexpr int half_lane(int lanes, int width, int odd, int lane) {
  if (width >= 4) return (2 * (lane / width) + odd) * width + lane % width;
  const int inside = lane % 4;
  const int at = (2 * (inside / width) + odd) * width + inside % width;
  return lane - inside + (at < 4 ? at : lanes + at - 4);
}

template <int Lanes, int Width, int Odd, int... Lane>
TESSERA_KERNELS_INLINE typename Simd<Lanes>::Floats half_of(typename Simd<Lanes>::Floats a,
                                                            typename Simd<Lanes>::Floats b,
                                                            std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, half_lane(Lanes, Width, Odd, Lane)...);
}

/// The even (Odd = 0) or odd runs of `Width` lanes of two vectors; see half_lane().
template <int Lanes, int Width, int Odd>
TESSERA_KERNELS_INLINE typename Simd<Lanes>::Floats half(typename Simd<Lanes>::Floats a,
                                                         typename Simd<Lanes>::Floats b) {
  return half_of<Lanes, Width, Odd>(a, b, std::make_integer_sequence<int, Lanes>());
}

/// One vector of the sums over the lanes of `Lanes` vectors: lane 4 b + l is the sum of
/// v[l * Lanes / 4 + b]. Lanes j and j + Lanes / 2 are added first, then neighbours at half that
/// distance, and so on: the same for every vector. Overwrites v.
template <int Lanes, int Width = Lanes / 2>
TESSERA_KERNELS_INLINE typename Simd<Lanes>::Floats sums_of_lanes(typename Simd<Lanes>::Floats* v) {
#pragma GCC unroll 16
  for (int i = 0; i < Width; ++i) {
    v[i] = half<Lanes, Width, 0>(v[2 * i], v[2 * i + 1]) +
           half<Lanes, Width, 1>(v[2 * i], v[2 * i + 1]);
  }
  if constexpr (Width > 1) {
    return sums_of_lanes<Lanes, Width / 2>(v);
  } else {
    return v[0];
  }
}

template <int Lanes>
TESSERA_KERNELS_INLINE float sum_of_lanes(typename Simd<Lanes>::Floats v) {
  float lane[Lanes];
  write(lane, v);
#pragma GCC unroll 8
  for (int width = Lanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  }
  return lane[0];
}

template <int Lanes>
TESSERA_KERNELS_INLINE float largest_lane(typename Simd<Lanes>::Floats v) {
  float lane[Lanes];
  write(lane, v);
#pragma GCC unroll 8
  for (int width = Lanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}

template <int Lanes, int... Lane>
TESSERA_KERNELS_INLINE void split_pairs_of(typename Simd<Lanes>::Floats& a,
                                           typename Simd<Lanes>::Floats& b,
                                           std::integer_sequence<int, Lane...>) {
  const auto even = __builtin_shufflevector(a, b, (2 * Lane)...);
  b = __builtin_shufflevector(a, b, (2 * Lane + 1)...);
  a = even;
}

/// a b = x0 y0 x1 y1 ... becomes a = x0 x1 ..., b = y0 y1 ...
template <int Lanes>
TESSERA_KERNELS_INLINE void split_pairs(typename Simd<Lanes>::Floats& a,
                                        typename Simd<Lanes>::Floats& b) {
  split_pairs_of<Lanes>(a, b, std::make_integer_sequence<int, Lanes>());
}

template <int Lanes, int... Lane>
TESSERA_KERNELS_INLINE void join_pairs_of(typename Simd<Lanes>::Floats& a,
                                          typename Simd<Lanes>::Floats& b,
                                          std::integer_sequence<int, Lane...>) {
  const auto first = __builtin_shufflevector(a, b, (Lane / 2 + Lane % 2 * Lanes)...);
  b = __builtin_shufflevector(a, b, (Lanes / 2 + Lane / 2 + Lane % 2 * Lanes)...);
  a = first;
}

/// The way back.
template <int Lanes>
TESSERA_KERNELS_INLINE void join_pairs(typename Simd<Lanes>::Floats& a,
                                       typename Simd<Lanes>::Floats& b) {
  join_pairs_of<Lanes>(a, b, std::make_integer_sequence<int, Lanes>());
}

}  // namespace
}  // namespace tessera::kernels::cpu
