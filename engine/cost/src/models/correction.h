#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "hats.h"

/// What a form with physical terms leaves over: the logarithm of a factor, linear in features.
namespace tessera::cost::models {

using FeatureRows = std::vector<std::vector<Feature>>;  ///< of each point

/// Errors beyond it count by their size, not their square.
inline constexpr double kCorrectionScale = 0.12;
/// The weights of such errors in the next step.
void reweigh(const Eigen::VectorXd& errors, Eigen::VectorXd& weights);

/// Coefficients of `num_features` whose sums are nearest to `target`, [point]: least absolute error
/// by reweighted ridge regression. A feature that no point has gets 0.
Eigen::VectorXd fit_correction(const FeatureRows& rows, const Eigen::VectorXd& target,
                               int num_features);

/// A Gaussian process through `target`, [point], whose covariances are `between`: the shares that
/// the points' covariances with another place add up to its value (kriging). Large errors count by
/// their size here too.
Eigen::VectorXd kriging_shares(const Eigen::MatrixXd& between, const Eigen::VectorXd& target);

/// As a file keeps them: thousandths, within +-8.
Eigen::VectorXd rounded_correction(const Eigen::VectorXd& correction);

/// Whole thousandths in one text: an array would take a line of the file for each. Zeros in a row
/// are counted, "0x12".
std::string write_correction(const Eigen::VectorXd& correction);
/// @throws Error{invalid_argument} naming `path` for a text of other than `count` such numbers.
Eigen::VectorXd read_correction(const std::string& text, int count, const std::string& path);

}  // namespace tessera::cost::models
