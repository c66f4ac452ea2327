#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// relu: max(x, 0); gelu: x times the normal distribution's cumulative function; gelu_tanh:
/// its approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, 2016,
/// section 2); silu: x / (1 + exp(-x)). Within 1e-6 of the value, or 1e-7 where that is less than
/// 0.1; a NaN gives NaN.
enum class Activation { relu, gelu, gelu_tanh, silu };

/// x [rows][stride] in place; numbers between `columns` and `stride` stay as they are.
Status activate(Activation activation, Rows rows, std::int64_t columns, std::int64_t stride,
                float* x);

/// out[row][c] = activation(gate[row][c]) * up[row][c] (Shazeer, 2020). gate, up [rows][stride],
/// which may be the halves of one matrix; out [rows][out_stride] may be `gate` or `up`.
Status gated_activation(Activation activation, const float* gate, const float* up,
                        std::int64_t stride, Rows rows, std::int64_t columns, float* out,
                        std::int64_t out_stride);

}  // namespace tessera::kernels
