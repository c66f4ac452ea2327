// The text of the SIMD versions for what every CPU of the architecture has: SSE2, NEON.
#include "../simd/dequant_gemm.h"

#include "baseline.h"

namespace tessera::kernels::cpu::baseline {
namespace {

struct Baseline {
  using Floats = Simd<4>::Floats;
  static constexpr int kLanes = 4;
  static constexpr int kSums = 8;                         // in registers, of few tokens
  static constexpr int kTileTokens = 2, kTileBlocks = 1;  // of many tokens
  static constexpr int kStripColumns = 256, kPanelTokens = 96;

  TESSERA_KERNELS_INLINE static Floats load(const void* from, Real type) {
    Floats v{};
    for (int i = 0; i < kLanes; ++i) v[i] = cpu::load(from, type, i);
    return v;
  }
  /// Rounds twice: SSE2 has nothing else.
  TESSERA_KERNELS_INLINE static Floats fma(Floats a, Floats b, Floats c) { return a * b + c; }
  TESSERA_KERNELS_INLINE static void to_f32(const void* from, Real type, std::int64_t count,
                                            float* to) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = cpu::load(from, type, i);
  }
};

}  // namespace

void dequant_gemm(Matrix activations, CodedWeights weights, Rows outputs, float* out,
                  std::int64_t out_stride) {
  dequant_gemm_of<Baseline>(activations, weights, outputs, out, out_stride);
}

void dense_gemm(Matrix activations, DenseWeights weights, Rows outputs, float* out,
                std::int64_t out_stride) {
  dense_gemm_of<Baseline>(activations, weights, outputs, out, out_stride);
}

}  // namespace tessera::kernels::cpu::baseline
