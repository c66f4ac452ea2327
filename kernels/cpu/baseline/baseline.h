#pragma once

#include "../versions.h"

// Versions for what every CPU of the architecture has; see versions.h.
namespace tessera::kernels::cpu::baseline {

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride);
void dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                std::int64_t out_stride);

}  // namespace tessera::kernels::cpu::baseline
