// The text of the SIMD versions for what every CPU of the architecture has: SSE2, NEON.
#include "../simd/dequant_gemm.h"

#include "baseline.h"

namespace tessera::kernels::cpu::baseline {
namespace {

struct Convert {
  template <int Lanes>
  TESSERA_KERNELS_INLINE static typename Simd<Lanes>::Floats load(const void* from, Real type) {
    typename Simd<Lanes>::Floats v{};
    for (int i = 0; i < Lanes; ++i) v[i] = cpu::load(from, type, i);
    return v;
  }
  TESSERA_KERNELS_INLINE static void to_f32(const void* from, Real type, std::int64_t count,
                                            float* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = cpu::load(from, type, i);
  }
};

}  // namespace

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride) {
  dequant_gemm_of<4, Convert>(activations, weights, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::baseline
