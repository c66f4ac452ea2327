#pragma once

#include <cpuid.h>

#if defined(__linux__)
extern "C" long syscall(long number, ...) noexcept;  // of the C library; kernels include std only
#endif

namespace tessera::kernels::cpu::amx {

/// Whether the CPU has tiles of bytes (Intel, "Software Developer's Manual", vol. 1, ch. 18), the
/// system saves them, and lets this process use them: Linux wants to be asked, because their 8 KiB
/// make signal frames larger (its documentation, arch/x86/xstate.rst).
inline bool available() {
  constexpr unsigned kOsxsave = 1u << 27, kTile = 1u << 24, kInt8 = 1u << 25, kTileState = 3u << 17;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kTile) == 0 || (d & kInt8) == 0) return false;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & kTileState) != kTileState) return false;
#if defined(__linux__)
  constexpr long kArchPrctl = 158, kRequestPermission = 0x1023, kTileData = 18;
  return syscall(kArchPrctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace tessera::kernels::cpu::amx
