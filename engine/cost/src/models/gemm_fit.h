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

/// The form of another GPU, or of another dtype of it, at this one's data sheet: its times, rates
/// and bandwidths scaled together, each tile's a little by itself, and its correction moved, as far
/// as the points (none will do) ask for.
std::unique_ptr<GemmOperator> scale_gemm(const Device& device, const std::vector<Sample>& samples,
                                         const GemmOperator& donor);

/// How a form may move: [kNumParameters, moves] in free parameters, and the precision of each move
/// a priori, per squared logarithm.
Eigen::MatrixXd gemm_scale_directions();
Eigen::VectorXd gemm_scale_precision();
/// Covariance a priori of what a scaled form leaves over, in logarithms, at two shapes.
double gemm_covariance(const GemmShape& a, const GemmShape& b);

}  // namespace tessera::cost::models
