#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Normalisation and addition of rows of f32, [rows][columns]. A row's result depends on that row
/// alone, in every bit: not on the slice that it was part of. NaN and Inf stay in their rows. Sizes
/// that are not positive, an empty slice, missing pointers and an epsilon that is negative or not
/// finite are `invalid_argument`.

/// out = in / sqrt(mean(in^2) + epsilon) * weight (Zhang and Sennrich, 2019, section 4).
/// weight [columns]. `in` may be `out`. Squares are summed in f32: numbers above 1e19 overflow.
Status rms_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                float epsilon, float* out);

/// out = (in - mean) / sqrt(variance + epsilon) * weight + bias (Ba et al., 2016, section 3). The
/// variance is that of the differences from the mean, divided by `columns`. weight, bias [columns];
/// either may be null: 1, 0. `in` may be `out`.
Status layer_norm(const float* in, Rows rows, std::int64_t columns, const float* weight,
                  const float* bias, float epsilon, float* out);

/// sum += in.
Status add(const float* in, Rows rows, std::int64_t columns, float* sum);

/// out[row] += bias, bias [columns], out [rows][stride].
Status add_bias(const float* bias, Rows rows, std::int64_t columns, std::int64_t stride,
                float* out);

}  // namespace tessera::kernels
