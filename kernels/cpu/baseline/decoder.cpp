// What a decoder needs besides its products: the texts of cpu/simd for this instruction set.
#include "../simd/attention.h"
#include "../simd/rows.h"
#include "baseline.h"
#include "isa.h"

namespace tessera::kernels::cpu::baseline {
namespace {

using Kernels = RowKernels<BaselineIsa>;

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

void attention(const AttentionTask& task) { Attention<BaselineIsa>::run(task); }

}  // namespace tessera::kernels::cpu::baseline
