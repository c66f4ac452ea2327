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

void rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight, float epsilon,
              float* out);
void layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                const float* bias, float epsilon, float* out);
void rotate(float* x, std::int64_t stride, Rows rows, const RopeForm& form, const float* cos_sin,
            const std::int32_t* positions);
void activate(Activation activation, const float* x, const float* up, std::int64_t count,
              float* out);
float log_sum_exp(const float* x, std::int64_t count);
void attention(const AttentionTask& task);

}  // namespace tessera::kernels::cpu::avx512
