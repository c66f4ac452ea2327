#pragma once

// Runs the CUDA kernels on a CPU, for tests on machines without a GPU: the kernels' own source is
// compiled by the host compiler and this header stands in for kernels/cuda/device/intrinsics.cuh.
// Blocks run one after the other; the threads of a block are fibres that a barrier or a warp-wide
// instruction switches, in an order that a seed shuffles, so that a missing barrier shows. Shared
// memory begins as NaN, asynchronous copies arrive at the last allowed moment. What this cannot
// show: memory ordering within a warp between barriers, and speed.

#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tessera/kernels/types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define TESSERA_DEVICE inline
#define TESSERA_GLOBAL static

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  std::uint32_t x, y;
};
inline uint4 make_uint4(std::uint32_t x, std::uint32_t y, std::uint32_t z, std::uint32_t w) {
  return {x, y, z, w};
}

namespace cuda_emulator {

/// The thread that runs, as CUDA's built-in variables.
struct Built {
  dim3 thread, block, block_size, grid;
};
extern Built built;

/// What device_arch() answers, 60 to 120; and the seed of the order in which threads run. Set
/// between launches.
extern int arch;
extern std::uint64_t order_seed;

unsigned char* shared_bytes();
void block_barrier();
void warp_barrier();
/// Gives every lane the `size` bytes (at most 64) of all 32 lanes, 64 bytes apart; valid until the
/// next call but one.
const unsigned char* warp_exchange(const void* mine, std::size_t size);
int lane();
void copy_later(void* to, const void* from, int num_bytes);
void commit_copies();
void wait_copies(int pending);

using Entry = void (*)(void* arguments);
/// Runs `entry` for every thread of the grid. Aborts with a message where the threads of a block
/// wait for each other.
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, Entry entry,
              void* arguments);

template <class T>
const T& of_lane(const unsigned char* all, int which) {
  return *reinterpret_cast<const T*>(all + 64 * which);
}

}  // namespace cuda_emulator

#define threadIdx (cuda_emulator::built.thread)
#define blockIdx (cuda_emulator::built.block)
#define blockDim (cuda_emulator::built.block_size)
#define gridDim (cuda_emulator::built.grid)

inline std::uint32_t __float_as_uint(float f) { return std::bit_cast<std::uint32_t>(f); }
inline float __uint_as_float(std::uint32_t u) { return std::bit_cast<float>(u); }

namespace tessera::kernels::cuda {

inline int device_arch() { return cuda_emulator::arch; }
inline int min(int a, int b) { return a < b ? a : b; }

template <int Value>
struct Constant {
  static constexpr int value = Value;
};

inline unsigned char* dynamic_shared() { return cuda_emulator::shared_bytes(); }
inline void sync_block() { cuda_emulator::block_barrier(); }
inline void sync_warp() { cuda_emulator::warp_barrier(); }
template <class T>
T shuffle_xor(T value, int mask) {
  return cuda_emulator::of_lane<T>(cuda_emulator::warp_exchange(&value, sizeof value),
                                   cuda_emulator::lane() ^ mask);
}

inline int same_in_warp(int value) {
  return cuda_emulator::of_lane<int>(cuda_emulator::warp_exchange(&value, sizeof value), 0);
}

inline std::uint32_t and_or(std::uint32_t a, std::uint32_t mask, std::uint32_t bits) {
  return (a & mask) | bits;
}
inline std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}
inline std::uint32_t pick_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t d = 0;
  for (int i = 0; i < 4; ++i)
    d |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return d;
}

inline float f32_of_f16(std::uint16_t h) { return f16_to_f32(h); }
inline std::uint16_t f16_of_f32(float f) { return f32_to_f16(f); }
inline std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d = 0;
  for (int s = 0; s < 32; s += 16) {
    const auto half = [s](std::uint32_t v) {
      return f16_to_f32(static_cast<std::uint16_t>(v >> s));
    };
    // Exact in f64 for what the kernels do with it, so it rounds once.
    const double exact = static_cast<double>(half(a)) * half(b) + half(c);
    d |= static_cast<std::uint32_t>(f32_to_f16(static_cast<float>(exact))) << s;
  }
  return d;
}
inline std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  if (device_arch() < 80) return 0;
  std::uint32_t d = 0;
  for (int s = 0; s < 32; s += 16) {
    const auto half = [s](std::uint32_t v) {
      return bf16_to_f32(static_cast<std::uint16_t>(v >> s));
    };
    const double exact = static_cast<double>(half(a)) * half(b) + half(c);
    d |= static_cast<std::uint32_t>(f32_to_bf16(static_cast<float>(exact))) << s;
  }
  return d;
}

/// The operands of an mma as lanes hold them; the layout is the one that the PTX manual draws.
struct MmaOperands {
  std::uint32_t a[4], b[2];
};
/// Element k of row `row` (of 16) and of column `column` (of 8); `K` of them in 32-bit registers.
template <int K, class Element>
struct MmaOperandView {
  static constexpr int kPer = static_cast<int>(4 / sizeof(Element));  // elements of a register
  const unsigned char* all;
  Element a(int row, int k) const {
    const auto& from = cuda_emulator::of_lane<MmaOperands>(all, 4 * (row % 8) + k % (K / 2) / kPer);
    return static_cast<Element>(from.a[row / 8 + 2 * (k / (K / 2))] >> shift(k));
  }
  Element b(int column, int k) const {
    const auto& from = cuda_emulator::of_lane<MmaOperands>(all, 4 * column + k % (K / 2) / kPer);
    return static_cast<Element>(from.b[k / (K / 2)] >> shift(k));
  }
  static int shift(int k) { return k % kPer * (32 / kPer); }
};
/// Calls f(sum of this lane, row, column, operands) for the four sums of a lane.
template <int K, class Element, class Sum, class F>
void emulate_mma(Sum (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
                 F&& f) {
  const MmaOperands mine{{a[0], a[1], a[2], a[3]}, {b0, b1}};
  const MmaOperandView<K, Element> view{cuda_emulator::warp_exchange(&mine, sizeof mine)};
  const int g = cuda_emulator::lane() / 4, t = cuda_emulator::lane() % 4;
  for (int i = 0; i < 4; ++i) f(c[i], g + 8 * (i / 2), 2 * t + i % 2, view);
}

/// A product as the tensor cores add it: its value and the power of two of its first bit if neither
/// factor were subnormal.
struct MmaTerm {
  double value;
  int exponent;
};
inline constexpr int kNoExponent = -150;  // less than any other
/// Of the first bit; no subnormal numbers, which the kernels' sums never are.
inline int exponent_of(float x) {
  return x == 0 ? kNoExponent : static_cast<int>(__float_as_uint(x) >> 23 & 0xff) - 127;
}
/// The sum of a product's terms and `c`: aligned to the largest exponent and cut, not rounded, to
/// 24 bits; factors are not normalised first. So Fasi et al. (2021) found V100 and T4; newer GPUs
/// keep more bits.
inline float add_truncated(float c, const MmaTerm* terms, int count) {
  const auto power = [](int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  };
  const auto cut = [](double x) { return static_cast<double>(static_cast<std::int64_t>(x)); };
  int largest = exponent_of(c);
  for (int i = 0; i < count; ++i) largest = std::max(largest, terms[i].exponent);
  const double steps = power(23 - largest);
  double sum = cut(c * steps);
  for (int i = 0; i < count; ++i) sum += cut(terms[i].value * steps);
  const double value = sum * power(largest - 23);
  const double last = power(exponent_of(static_cast<float>(value)) - 23);
  return static_cast<float>(cut(value / last) * last);
}
/// 16-bit reals, four products at a time as on sm_75, eight as on sm_80.
template <class Value>
void emulate_real_mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                      std::uint32_t b1, int least_exponent, Value&& value) {
  const int at_once = device_arch() < 80 ? 4 : 8;
  const auto exponent = [&](float x) {
    return x == 0 ? kNoExponent : std::max(exponent_of(x), least_exponent);
  };
  emulate_mma<16, std::uint16_t>(
      c, a, b0, b1, [&](float& sum, int row, int column, const auto& view) {
        for (int first = 0; first < 16; first += at_once) {
          MmaTerm terms[8];
          bool finite = std::isfinite(sum);
          double plain = sum;
          for (int i = 0; i < at_once; ++i) {
            const float x = value(view.a(row, first + i)), y = value(view.b(column, first + i));
            terms[i] = {static_cast<double>(x) * y, exponent(x) + exponent(y)};
            finite = finite && std::isfinite(terms[i].value);
            plain += terms[i].value;
          }
          sum = finite ? add_truncated(sum, terms, at_once) : static_cast<float>(plain);
        }
      });
}
inline void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                    std::uint32_t b1) {
  if (device_arch() >= 75)
    emulate_real_mma(c, a, b0, b1, -14, [](std::uint16_t v) { return f16_to_f32(v); });
}
inline void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                     std::uint32_t b1) {
  if (device_arch() >= 80)
    emulate_real_mma(c, a, b0, b1, -126, [](std::uint16_t v) { return bf16_to_f32(v); });
}
inline void mma_s8(int (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if (device_arch() < 75) return;
  emulate_mma<32, std::uint8_t>(c, a, b0, b1, [](int& sum, int row, int column, const auto& view) {
    for (int k = 0; k < 32; ++k)
      sum += static_cast<std::int8_t>(view.a(row, k)) * static_cast<std::int8_t>(view.b(column, k));
  });
}
inline int dot_s8(std::uint32_t a, std::uint32_t b, int c) {
  for (int i = 0; i < 4; ++i)
    c += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return c;
}

/// Lane l keeps elements 8 l to 8 l + 7 of the row-major (a, c) or column-major (b) matrix.
struct WmmaOperand {
  std::uint32_t r[8];
};
inline void wmma_load_a(WmmaOperand& a, const std::uint16_t* shared, int stride) {
  const int lane = cuda_emulator::lane();
  std::memcpy(a.r, shared + lane / 2 * stride + lane % 2 * 8, 16);
}
inline void wmma_load_b(WmmaOperand& b, const std::uint16_t* shared, int stride) {
  wmma_load_a(b, shared, stride);
}
inline void wmma_multiply(float (&c)[8], const WmmaOperand& a, const WmmaOperand& b) {
  std::uint32_t mine[8];
  std::memcpy(mine, a.r, 16);
  std::memcpy(mine + 4, b.r, 16);
  const unsigned char* all = cuda_emulator::warp_exchange(mine, sizeof mine);
  const auto element = [all](int operand, int line, int k) {
    std::uint16_t bits;
    std::memcpy(&bits, all + 64 * (2 * line + k / 8) + 16 * operand + 2 * (k % 8), 2);
    return f16_to_f32(bits);
  };
  for (int i = 0; i < 8; ++i) {
    const int at = 8 * cuda_emulator::lane() + i;
    for (int k = 0; k < 16; ++k) c[i] += element(0, at / 16, k) * element(1, at % 16, k);
  }
}
inline void wmma_store(float* shared, const float (&c)[8], int stride) {
  for (int i = 0; i < 8; ++i) {
    const int at = 8 * cuda_emulator::lane() + i;
    shared[at % 16 * stride + at / 16] = c[i];
  }
}

inline void copy_async_16(void* shared, const void* global, int num_bytes) {
  cuda_emulator::copy_later(shared, global, num_bytes);
}
inline void commit_copies() { cuda_emulator::commit_copies(); }
template <int Pending>
void wait_copies() {
  cuda_emulator::wait_copies(Pending);
}
template <class T>
void load_once(T& v, const void* p) {
  std::memcpy(&v, p, sizeof v);
}
template <class T>
void load_where(bool wanted, T& v, const void* p) {
  if (wanted) std::memcpy(&v, p, sizeof v);
}
template <class T>
void load_once_where(bool wanted, T& v, const void* p) {
  load_where(wanted, v, p);
}
inline void load_16_where(bool wanted, std::uint32_t& v, const void* p) {
  std::uint16_t bits = 0;
  load_where(wanted, bits, p);
  if (wanted) v = bits;
}

using Stream = void*;

template <class... Parameters>
Status launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
              Stream, Parameters... parameters) {
  auto call = [&] { kernel(parameters...); };
  cuda_emulator::run_grid(
      grid, block, shared_bytes, [](void* f) { (*static_cast<decltype(call)*>(f))(); }, &call);
  return Status::ok;
}
template <class Kernel>
Status allow_shared_bytes(Kernel*, int) {
  return Status::ok;
}

}  // namespace tessera::kernels::cuda
