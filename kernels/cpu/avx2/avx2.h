#pragma once

#include "../versions.h"

// Versions for AVX2 with FMA and F16C; see versions.h.
namespace tessera::kernels::cpu::avx2 {
#include "../functions.inc"
}  // namespace tessera::kernels::cpu::avx2
