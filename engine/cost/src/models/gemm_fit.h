#pragma once

#include <memory>
#include <vector>

#include "gemm_operator.h"

namespace tessera::cost::models {

/// From measured points of one dtype: the tiles by damped least squares of the logarithms
/// (Levenberg-Marquardt, Huber-like weights) drawn towards typical kernels, then the correction by
/// ridge regression of the absolute error. Any number of points does; few keep it near typical.
/// @throws Error{invalid_argument} for none.
std::unique_ptr<GemmOperator> fit_gemm(const Device& device, const std::vector<Sample>& samples);

/// The form of another GPU, at this one's data sheet: its times, rates and bandwidths scaled
/// together, and its correction moved a little, as far as the points (none will do) ask for.
std::unique_ptr<GemmOperator> scale_gemm(const Device& device, const std::vector<Sample>& samples,
                                         const GemmOperator& donor);

}  // namespace tessera::cost::models
