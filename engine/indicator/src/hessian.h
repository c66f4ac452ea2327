#pragma once

#include <Eigen/Core>

/// What the indicators that know the Hessian of an operator's output error need. The Hessian is
/// H = X^T X / num_tokens, [in_features, in_features], as statistics files hold it; the factor 2 of
/// the squared error is left out, which scales every omega alike.
namespace tessera::indicator {

/// The largest eigenvalue by power iteration: HAWQ's lambda, SplitQuant IV-B. Starts from a fixed
/// pseudo-random vector; ends when an iteration changes it by less than 1e-6 of itself, after 1000
/// at the latest. Never above the true value but for rounding.
/// @throws Error{invalid_argument} for a matrix that is not square, or not finite
double top_eigenvalue(const Eigen::MatrixXf& hessian);

/// The largest eigenvalue of the upper Cholesky factor U of the inverse, H^-1 = U^T U, which
/// LLM-PQ's published code takes for the Hessian's: the eigenvalues of a triangular matrix are its
/// diagonal. As there, `damping` times the mean of the diagonal is added to H first, and features
/// that are never active count as 1. Three factorisations of O(in_features^3).
/// @throws Error{invalid_argument} as above, or where H is not positive definite
double top_eigenvalue_of_inverse_factor(const Eigen::MatrixXf& hessian, double damping = 0.01);

}  // namespace tessera::indicator
