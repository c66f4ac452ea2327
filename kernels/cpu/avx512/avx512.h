#pragma once

#include "../versions.h"

// Versions for AVX-512 (F, BW, VL), and VNNI for int8_gemm and dequant_gemm_a8; see versions.h.
namespace tessera::kernels::cpu::avx512 {
#include "../functions.inc"

/// Also needs VNNI.
void dequant_gemm_digits(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                         std::int64_t out_stride);
}  // namespace tessera::kernels::cpu::avx512
