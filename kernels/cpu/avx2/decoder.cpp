// What a decoder needs besides its products: the texts of cpu/simd for this instruction set.
#include "../reference/reference.h"
#include "../simd/attention.h"
#include "../simd/rows.h"
#include "avx2.h"
#include "isa.h"

namespace tessera::kernels::cpu::avx2 {
namespace {

using Kernels = RowKernels<Avx2Isa>;

}  // namespace

void rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight, float epsilon,
              float* out) {
  Kernels::rms_norm(in, rows, columns, weight, epsilon, out);
}

void layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                const float* bias, float epsilon, float* out) {
  Kernels::layer_norm(in, rows, columns, weight, bias, epsilon, out);
}

void rotate(float* x, std::int64_t stride, Rows rows, const RopeForm& form, const float* cos_sin,
            const std::int32_t* positions) {
  Kernels::rotate(x, stride, rows, form, cos_sin, positions);
}

void activate(Activation activation, const float* x, const float* up, std::int64_t count,
              float* out) {
  Kernels::activate(activation, x, up, count, out);
}

float log_sum_exp(const float* x, std::int64_t count) { return Kernels::log_sum_exp(x, count); }

void narrow(const float* from, std::int64_t count, Real type, void* to) {
  if (type == Real::bf16) return reference::narrow(from, count, type, to);
  auto* halves = static_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bits = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(halves + i), bits);
  }
  reference::narrow(from + i, count - i, type, halves + i);
}

void attention(const AttentionTask& task) { Attention<Avx2Isa>::run(task); }

}  // namespace tessera::kernels::cpu::avx2
