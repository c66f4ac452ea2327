#pragma once

#include "../versions.h"

// Versions for AVX2 with FMA and F16C; see versions.h.
namespace tessera::kernels::cpu::avx2 {

void moments(Numbers x, Moments* out);
void ranges(Numbers x, std::int64_t group_size, Range* out);
void code_ranges(const std::int8_t* codes, std::int64_t num_groups, std::int64_t group_size,
                 std::int8_t* min, std::int8_t* max);
void quantise(Numbers x, const QuantiseOptions& options, std::uint8_t* codes);
void dequantise(const std::uint8_t* codes, std::int64_t count, float scale, int zero_point,
                float* out);
void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride);
void dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                std::int64_t out_stride);
void dequant_gemm_a8(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                     std::int64_t out_stride);
void quantise_row(Numbers x, const std::uint8_t* is_outlier, std::int8_t* codes, float* scale);
void int8_gemm(const Int8Product& product);

}  // namespace tessera::kernels::cpu::avx2
