#pragma once

// The few instructions that the kernels need and that C++ has no word for, each in one function.
// The kernels use nothing else of the device, so the tests can run them on a CPU: without a CUDA
// compiler this file's functions come from the emulator of tests/gpu. PTX names:
// https://docs.nvidia.com/cuda/parallel-thread-execution/

#ifndef __CUDACC__
#include <cuda_emulator.h>
#else

#include <cstdint>

#define TESSERA_DEVICE __device__ __forceinline__
/// A kernel that is no template: each file that includes it has its own.
#define TESSERA_GLOBAL static __global__

namespace tessera::kernels::cuda {

/// Compute capability that the code at hand is compiled for: 75 for sm_75. A constant, so branches
/// on it vanish.
TESSERA_DEVICE constexpr int device_arch() {
#ifdef __CUDA_ARCH__
  return __CUDA_ARCH__ / 10;
#else
  return 0;
#endif
}

/// A number as a type, for lambdas that need it as a constant.
template <int Value>
struct Constant {
  static constexpr int value = Value;
};

TESSERA_DEVICE unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char tessera_shared_bytes[];
  return tessera_shared_bytes;
}

TESSERA_DEVICE void sync_block() { __syncthreads(); }
TESSERA_DEVICE void sync_warp() { __syncwarp(); }
template <class T>
TESSERA_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}

/// `value` of lane 0. A number that is the same in every lane anyway is thereby known to be: what
/// it decides needs no code for lanes that part.
TESSERA_DEVICE int same_in_warp(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// (a & mask) | bits in one instruction: 0xea is the truth table of (a & b) | c.
TESSERA_DEVICE std::uint32_t and_or(std::uint32_t a, std::uint32_t mask, std::uint32_t bits) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(mask), "r"(bits));
  return d;
}
/// The upper half of the 64-bit product.
TESSERA_DEVICE std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  return __umulhi(a, b);
}
/// Picks four of the eight bytes of (b, a); nibble i of `selector` names byte i of the result.
TESSERA_DEVICE std::uint32_t pick_bytes(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  return __byte_perm(a, b, selector);
}

// 16-bit reals travel as bits: two in a 32-bit register, the first in the lower half.
TESSERA_DEVICE float f32_of_f16(std::uint16_t h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
TESSERA_DEVICE std::uint16_t f16_of_f32(float f) {
  std::uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
/// a * b + c in both halves, rounded once.
TESSERA_DEVICE std::uint32_t fma_f16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
TESSERA_DEVICE std::uint32_t add_f16x2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t d;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
/// sm_80 and newer; zero elsewhere, where the host never asks for it.
TESSERA_DEVICE std::uint32_t fma_bf16x2(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d = 0;
#if __CUDA_ARCH__ >= 800
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
#endif
  return d;
}

/// c += a * b, warp-wide, [16 rows, 16 k] times [16 k, 8 columns], f32 sums. Lane 4 g + t holds,
/// two to a register: a: (row g, k 2t), (row g + 8, k 2t), (row g, k 2t + 8), (row g + 8, k 2t +
/// 8), and the next k of each; b: (k 2t, column g), (k 2t + 8, column g), and the next k of each;
/// c: (row g, columns 2t, 2t + 1), (row g + 8, columns 2t, 2t + 1).
TESSERA_DEVICE void mma_f16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                            std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}
/// As mma_f16 with bf16 operands; sm_80 and newer.
TESSERA_DEVICE void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
/// c += a * b, warp-wide, int8, [16 rows, 32 k] times [32 k, 8 columns], int32 sums; four k to a
/// register: a: (row g, k 4t), (row g + 8, k 4t), (row g, k 4t + 16), (row g + 8, k 4t + 16); b: (k
/// 4t, column g), (k 4t + 16, column g); c as mma_f16.
TESSERA_DEVICE void mma_s8(int (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                           std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 750
  // Four quarters of [8 rows, 16 k]: rows g with both halves of k, then rows g + 8.
  for (int part = 0; part < 4; ++part) {
    const int upper = part / 2, late = part % 2;
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+r"(c[2 * upper]), "+r"(c[2 * upper + 1])
        : "r"(a[upper + 2 * late]), "r"(late ? b1 : b0));
  }
#endif
}
/// c + the dot product of four signed bytes.
TESSERA_DEVICE int dot_s8(std::uint32_t a, std::uint32_t b, int c) {
#if __CUDA_ARCH__ >= 610
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
#else
  for (int i = 0; i < 4; ++i)
    c += static_cast<std::int8_t>(a >> (8 * i)) * static_cast<std::int8_t>(b >> (8 * i));
  return c;
#endif
}

// Matrices of 16 x 16 for the first tensor cores (sm_70), which have no mma.sync with these shapes;
// which lane holds what is the hardware's affair. Nothing before sm_70, where the host never asks
// for them.
struct WmmaOperand {
  std::uint32_t r[8];
};
/// [16 rows, 16 k] f16, row-major in shared memory, `stride` in elements (a multiple of 8).
TESSERA_DEVICE void wmma_load_a(WmmaOperand& a, const std::uint16_t* shared, int stride) {
#if __CUDA_ARCH__ >= 700
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(a.r[0]), "=r"(a.r[1]), "=r"(a.r[2]), "=r"(a.r[3]), "=r"(a.r[4]), "=r"(a.r[5]),
                 "=r"(a.r[6]), "=r"(a.r[7])
               : "l"(shared), "r"(stride)
               : "memory");
#endif
}
/// [16 k, 16 columns] f16, each column contiguous in k, columns `stride` elements apart.
TESSERA_DEVICE void wmma_load_b(WmmaOperand& b, const std::uint16_t* shared, int stride) {
#if __CUDA_ARCH__ >= 700
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(b.r[0]), "=r"(b.r[1]), "=r"(b.r[2]), "=r"(b.r[3]), "=r"(b.r[4]), "=r"(b.r[5]),
                 "=r"(b.r[6]), "=r"(b.r[7])
               : "l"(shared), "r"(stride)
               : "memory");
#endif
}
TESSERA_DEVICE void wmma_multiply(float (&c)[8], const WmmaOperand& a, const WmmaOperand& b) {
#if __CUDA_ARCH__ >= 700
  asm volatile(
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
      "{%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, "
      "{%0,%1,%2,%3,%4,%5,%6,%7};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(a.r[4]), "r"(a.r[5]), "r"(a.r[6]),
        "r"(a.r[7]), "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), "r"(b.r[3]), "r"(b.r[4]), "r"(b.r[5]),
        "r"(b.r[6]), "r"(b.r[7]));
#endif
}
/// Writes c with each column contiguous: element (row, column) at column * stride + row.
TESSERA_DEVICE void wmma_store(float* shared, const float (&c)[8], int stride) {
#if __CUDA_ARCH__ >= 700
  asm volatile(
      "wmma.store.d.sync.aligned.col.m16n16k16.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"l"(
          shared),
      "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), "f"(c[5]), "f"(c[6]), "f"(c[7]),
      "r"(stride)
      : "memory");
#endif
}

/// Starts copying 16 bytes into shared memory, of which the last 16 - num_bytes become zero. Before
/// sm_80 the copy is done when the call returns.
TESSERA_DEVICE void copy_async_16(void* shared, const void* global, int num_bytes) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(num_bytes)
               : "memory");
#else
  uint4 v;
  if (num_bytes == 16) {
    v = *static_cast<const uint4*>(global);
  } else {
    std::uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 16; ++i)
      if (i < num_bytes)
        words[i / 4] |= static_cast<std::uint32_t>(static_cast<const unsigned char*>(global)[i])
                        << (8 * (i % 4));
    v = make_uint4(words[0], words[1], words[2], words[3]);
  }
  *static_cast<uint4*>(shared) = v;
#endif
}
TESSERA_DEVICE void commit_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most `Pending` of the calling thread's newest groups of copies are under way.
template <int Pending>
TESSERA_DEVICE void wait_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

// Weights are read once: they should not push the activations out of L1.
#if __CUDA_ARCH__ < 700
#define TESSERA_LOAD_ONCE "ld.global.nc"
#else
#define TESSERA_LOAD_ONCE "ld.global.nc.L1::no_allocate"
#endif
TESSERA_DEVICE void load_once(std::uint32_t& v, const void* p) {
  asm volatile(TESSERA_LOAD_ONCE ".u32 %0, [%1];" : "=r"(v) : "l"(p));
}
TESSERA_DEVICE void load_once(uint2& v, const void* p) {
  asm volatile(TESSERA_LOAD_ONCE ".v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
}
TESSERA_DEVICE void load_once(uint4& v, const void* p) {
  asm volatile(TESSERA_LOAD_ONCE ".v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
}

// Loads only where `wanted`; elsewhere v keeps what it holds. No branch, so nothing waits for it.
#define TESSERA_LOAD_WHERE(flag, load) "{.reg .pred w; setp.ne.u32 w, " flag ", 0; @w " load ";}"
TESSERA_DEVICE void load_once_where(bool wanted, std::uint32_t& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%2", TESSERA_LOAD_ONCE ".u32 %0, [%1]")
               : "+r"(v)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
TESSERA_DEVICE void load_once_where(bool wanted, uint2& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%3", TESSERA_LOAD_ONCE ".v2.u32 {%0,%1}, [%2]")
               : "+r"(v.x), "+r"(v.y)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
TESSERA_DEVICE void load_once_where(bool wanted, uint4& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%5", TESSERA_LOAD_ONCE ".v4.u32 {%0,%1,%2,%3}, [%4]")
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
TESSERA_DEVICE void load_where(bool wanted, uint4& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%5", "ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4]")
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
TESSERA_DEVICE void load_where(bool wanted, uint2& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%3", "ld.global.nc.v2.u32 {%0,%1}, [%2]")
               : "+r"(v.x), "+r"(v.y)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
TESSERA_DEVICE void load_where(bool wanted, std::uint32_t& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%2", "ld.global.nc.u32 %0, [%1]")
               : "+r"(v)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}
/// Two bytes into the lower half of v; its upper half becomes zero.
TESSERA_DEVICE void load_16_where(bool wanted, std::uint32_t& v, const void* p) {
  asm volatile(TESSERA_LOAD_WHERE("%2", "ld.global.nc.u16 %0, [%1]")
               : "+r"(v)
               : "l"(p), "r"(static_cast<unsigned>(wanted)));
}

}  // namespace tessera::kernels::cuda
#endif
