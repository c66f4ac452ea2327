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

/// Adds the even to the odd runs of `Width` lanes of each two of `Count` vectors, side by side in
/// the first half of v.
template <int Lanes, int Count, int Width>
TESSERA_KERNELS_INLINE void add_halves(typename Simd<Lanes>::Floats* v) {
#pragma GCC unroll 4
  for (int i = 0; i < Count / 2; ++i) {
    v[i] = half<Lanes, Width, 0>(v[2 * i], v[2 * i + 1]) +
           half<Lanes, Width, 1>(v[2 * i], v[2 * i + 1]);
  }
}

/// The first two steps of sums over the lanes of four vectors: every four lanes of the result hold
/// the sums of those lanes of v[0], v[1], v[2] and v[3]. Overwrites v.
template <int Lanes>
TESSERA_KERNELS_INLINE typename Simd<Lanes>::Floats sums_of_fours(typename Simd<Lanes>::Floats* v) {
  add_halves<Lanes, 4, 2>(v);
  add_halves<Lanes, 2, 1>(v);
  return v[0];
}

/// The others: from Lanes / 4 results of sums_of_fours() to the sums of their Lanes vectors.
/// Overwrites v.
template <int Lanes, int Width = Lanes / 2>
TESSERA_KERNELS_INLINE typename Simd<Lanes>::Floats sums_of_all(typename Simd<Lanes>::Floats* v) {
  if constexpr (Width >= 4) {
    add_halves<Lanes, Width / 2, Width>(v);
    return sums_of_all<Lanes, Width / 2>(v);
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
