#pragma once

#include "intrinsics.cuh"
#include "tessera/kernels/types.h"

namespace tessera::kernels::cuda {

/// Element `index` as f32.
TESSERA_DEVICE float load_real(const void* x, Real type, std::int64_t index) {
  if (type == Real::f32) return static_cast<const float*>(x)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(x)[index];
  return type == Real::f16 ? f32_of_f16(bits)
                           : __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

TESSERA_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

/// Calls f(value) for the share of thread `rank` of `size` in `count` numbers, 16 bytes at a time
/// where `x` is aligned. Which thread gets what does not matter to the caller, only that it is the
/// same at every call.
template <class F>
TESSERA_DEVICE void each_value(const void* x, Real type, std::int64_t count, std::int64_t rank,
                               std::int64_t size, F&& f) {
  std::int64_t done = 0;
  if (reinterpret_cast<std::uintptr_t>(x) % 16 == 0) {
    const int per_vector = type == Real::f32 ? 4 : 8;
    const auto* vectors = static_cast<const uint4*>(x);
    for (std::int64_t v = rank; v < count / per_vector; v += size) {
      uint4 packed;
      load_once(packed, vectors + v);
      const std::uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (type == Real::f32) {
          f(__uint_as_float(words[i]));
        } else if (type == Real::f16) {
          f(f32_of_f16(static_cast<std::uint16_t>(words[i])));
          f(f32_of_f16(static_cast<std::uint16_t>(words[i] >> 16)));
        } else {
          f(__uint_as_float(words[i] << 16));
          f(__uint_as_float(words[i] & 0xffff0000u));
        }
      }
    }
    done = count / per_vector * per_vector;
  }
  for (std::int64_t i = done + rank; i < count; i += size) f(load_real(x, type, i));
}

/// Address of element `index`.
TESSERA_DEVICE const void* element(const void* x, Real type, std::int64_t index) {
  return static_cast<const unsigned char*>(x) + index * size_of(type);
}

/// Numbers that are reduced together: a whole matrix row, or a group of it.
struct Segments {
  const void* data;
  Real type;
  std::int64_t rows, columns, stride,
      size;  ///< size: columns of a segment; the last of a row may be shorter
  std::int64_t per_row;
};

struct Segment {
  const void* data;
  std::int64_t count;
};

TESSERA_DEVICE Segment segment_of(const Segments& s, std::int64_t index) {
  const std::int64_t first = index % s.per_row * s.size;
  const std::int64_t left = s.columns - first;
  return {element(s.data, s.type, index / s.per_row * s.stride + first),
          left < s.size ? left : s.size};
}

}  // namespace tessera::kernels::cuda
