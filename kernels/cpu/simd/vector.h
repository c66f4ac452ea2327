#pragma once

#include <cstdint>

#include "../versions.h"

// Vectors of `Lanes` numbers by the compiler's own extension: one text of the kernels serves every
// instruction set, each compiled in a file of its own with that set's flags. Everything here is in
// an unnamed namespace or always inlined, so that no code for one set is linked into another.
namespace tessera::kernels::cpu {
namespace {

constexpr int kRows = static_cast<int>(kRowsPerBlock);  // of a block: lanes of some vectors

template <int Lanes>
struct Simd {
  typedef float Floats __attribute__((vector_size(4 * Lanes)));
  typedef std::int32_t Ints __attribute__((vector_size(4 * Lanes)));
  typedef std::uint32_t Words __attribute__((vector_size(4 * Lanes)));
};

template <class V>
TESSERA_KERNELS_INLINE V read(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof(V));
  return v;
}

template <class V>
TESSERA_KERNELS_INLINE void write(void* to, V v) {
  __builtin_memcpy(to, &v, sizeof(V));
}

/// The same number in every lane.
template <class V>
TESSERA_KERNELS_INLINE V all(float value) {
  return value - V{};  // 0 + value would be an instruction: it turns -0 into 0
}

}  // namespace
}  // namespace tessera::kernels::cpu
