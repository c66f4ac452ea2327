#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// out[row] = log(sum over columns of exp(logits[row][column])) for logits [rows][columns], without
/// overflow: the row's largest is taken out. Sums in double; within 1e-6 of the value, or 1e-6
/// where that is less than 1. A row with NaN gives NaN, one with +Inf gives +Inf.
Status log_sum_exp(const float* logits, Rows rows, std::int64_t columns, float* out);

}  // namespace tessera::kernels
