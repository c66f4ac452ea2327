#pragma once

#include "../versions.h"

// Versions for AMX (TILE, INT8); see versions.h.
namespace tessera::kernels::cpu::amx {

void int8_gemm(const std::int8_t* codes, const float* scale, std::int64_t tokens,
               Int8Weights weights, Rows outputs, float* out, std::int64_t out_stride);

}  // namespace tessera::kernels::cpu::amx
