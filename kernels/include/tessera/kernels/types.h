#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
// For the small functions that the scalar, SIMD and CUDA files share. They are never emitted on
// their own: the linker keeps one copy of an inline function, and that copy could be the one
// compiled for a CPU that this machine is not.
#define TESSERA_KERNELS_INLINE TESSERA_HOST_DEVICE [[gnu::always_inline]] inline

namespace tessera::kernels {

/// What a kernel answers. Anything but `ok` leaves the outputs as they were, except after
/// `device_error`.
enum class Status { ok, invalid_argument, unsupported, device_error };

/// "ok", "invalid argument", ...
const char* describe(Status status);

/// Real numbers in memory. The 16-bit ones are stored as std::uint16_t.
enum class Real { f32, f16, bf16 };

TESSERA_KERNELS_INLINE constexpr std::int64_t size_of(Real type) {
  return type == Real::f32 ? 4 : 2;
}

/// A row-major matrix of real numbers; `stride` is the distance of rows in elements, at least
/// `columns`. A weight matrix is [out_features, in_features], activations are [tokens,
/// in_features].
struct Matrix {
  const void* data;
  Real type;
  std::int64_t rows, columns, stride;
};

/// The rows [first, last) that a call works on. Outputs are those of the whole matrix; a call
/// writes the part that belongs to its rows, so that threads can share a matrix.
struct Rows {
  std::int64_t first, last;
};

TESSERA_KERNELS_INLINE constexpr float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// To nearest, ties to even; a NaN stays one (quiet).
TESSERA_KERNELS_INLINE constexpr std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

TESSERA_KERNELS_INLINE constexpr float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) {  // Inf, NaN; a NaN becomes quiet, as the hardware makes it
    const std::uint32_t quiet = rest > 0x7c00u ? 0x400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (rest & 0x3ffu) << 13);
  }
  if (rest >= 0x400u) return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(rest) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

/// To nearest, ties to even; too large becomes Inf; a NaN stays one (quiet).
TESSERA_KERNELS_INLINE constexpr std::uint16_t f32_to_f16(float value) {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((all >> 16) & 0x8000u);
  const std::uint32_t bits = all & 0x7fffffffu;
  if (bits > 0x7f800000u) {
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((bits >> 13) & 0x3ffu));
  }
  if (bits >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more
  if (bits < 0x38800000u) {                        // below 2^-14: steps of 2^-24
    // Adding 0.5 puts the steps where the last bits of an f32 are: the addition rounds.
    const float shifted = std::bit_cast<float>(bits) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t even = (bits >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((bits - 0x38000000u + 0xfffu + even) >> 13));
}

}  // namespace tessera::kernels
