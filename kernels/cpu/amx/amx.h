#pragma once

#include "../versions.h"

// Versions for AMX (TILE, INT8); see versions.h.
namespace tessera::kernels::cpu::amx {

void int8_gemm(const Int8Product& product);

}  // namespace tessera::kernels::cpu::amx
