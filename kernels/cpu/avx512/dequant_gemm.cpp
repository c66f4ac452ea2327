#include "../simd/dequant_gemm.h"

#include "avx512.h"
#include "convert.h"

namespace tessera::kernels::cpu::avx512 {

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride) {
  dequant_gemm_of<Avx512>(activations, weights, outputs, out, out_stride);
}

void dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                std::int64_t out_stride) {
  dense_gemm_of<Avx512>(activations, weights, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::avx512
