#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Four words of 32 random bits.
struct RandomBlock {
  std::uint32_t word[4];
};

/// Philox-4x32-10 with the counter {block, 0} and the key `seed` (Salmon, Moraes, Dror and Shaw,
/// "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3 and table 2). It has no
/// state: any thread, SIMD lane or GPU finds the numbers of any element.
TESSERA_KERNELS_INLINE constexpr RandomBlock random_block(std::uint64_t seed, std::uint64_t block) {
  std::uint32_t x0 = static_cast<std::uint32_t>(block);
  std::uint32_t x1 = static_cast<std::uint32_t>(block >> 32);
  std::uint32_t x2 = 0, x3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed);
  std::uint32_t k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * x0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * x2;
    x0 = static_cast<std::uint32_t>(b >> 32) ^ x1 ^ k0;
    x1 = static_cast<std::uint32_t>(b);
    x2 = static_cast<std::uint32_t>(a >> 32) ^ x3 ^ k1;
    x3 = static_cast<std::uint32_t>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}

/// The upper 24 bits of a word as a number in [0, 1): every value is exact in f32.
TESSERA_KERNELS_INLINE constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// The number in [0, 1) that stochastic rounding uses for element `index` (row * columns + column):
/// word `index % 4` of block `index / 4`.
TESSERA_KERNELS_INLINE constexpr float stochastic_uniform(std::uint64_t seed, std::uint64_t index) {
  return uniform_of(random_block(seed, index / 4).word[index % 4]);
}

}  // namespace tessera::kernels
