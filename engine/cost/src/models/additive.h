#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "tessera/core/json_fwd.h"

/// Times that are sums of terms, each with a coefficient that is not negative. A term is in seconds
/// and never falls when the work grows, so neither does the sum, whatever the fit; terms made from
/// the data sheet (bytes / bandwidth) let coefficients move from one device to another.
namespace tessera::cost::models {

struct Term {
  const char* name;
  double typical;  ///< coefficient where too few points tell another; rounded from an A100
};

/// The coefficients that minimise the sum of |predicted / measured - 1| (least squares,
/// reweighted), none negative. Fewer points than terms: `typical`, adapted. terms [point,
/// term], seconds [point] positive.
Eigen::VectorXd fit_additive(const Eigen::MatrixXd& terms, const Eigen::VectorXd& seconds,
                             const Eigen::VectorXd& typical);

/// Known coefficients scaled to a few points: one factor for all, then one per term, held near it
/// by a ridge, so that one point suffices and 20 move what they can tell. A coefficient of 0 stays.
/// Returns the factors. terms [point, term] are already times the known coefficients.
Eigen::VectorXd adapt_additive(const Eigen::MatrixXd& terms, const Eigen::VectorXd& seconds);

/// The median of measured / predicted: one factor for all.
double common_factor(const Eigen::VectorXd& predicted, const Eigen::VectorXd& measured);

Eigen::VectorXd typical_of(const std::vector<Term>& terms);

/// { "launch": 10.4, ... }: zero coefficients are left out.
Json to_json(const std::vector<Term>& terms, const Eigen::VectorXd& coefficients);
/// Strict: an unknown term, a negative number or no positive one is an error.
Eigen::VectorXd coefficients_from_json(const std::vector<Term>& terms, const Json& json,
                                       const std::string& path);

}  // namespace tessera::cost::models
