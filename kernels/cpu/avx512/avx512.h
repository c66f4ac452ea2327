#pragma once

#include "../versions.h"

// Versions for AVX-512 (F, BW, VL); see versions.h.
namespace tessera::kernels::cpu::avx512 {

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride);
void dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                std::int64_t out_stride);

/// These also need VNNI.
void dequant_gemm_digits(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                         std::int64_t out_stride);
void dequant_gemm_a8(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                     std::int64_t out_stride);
void int8_gemm(const Int8Product& product);

}  // namespace tessera::kernels::cpu::avx512
