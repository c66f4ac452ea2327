#include "additive.h"

#include <fmt/format.h>

#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "../nnls.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"

namespace tessera::cost::models {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kRounds = 30;
// Relative errors below this weigh as this: noise of the measurement, not of the model.
constexpr double kSmallError = 0.01;
// Of a factor's square distance from the common one, against squared relative errors weighed as in
// the fit. Chosen on A100 <-> H200 attention with 20 points: 0.03 to 0.1 do alike.
constexpr double kRidge = 0.05;
constexpr double kTypicalError = 0.1;

// |a x - b| with fewer rows, the same minimum: R x - Q' b of the QR decomposition.
VectorXd solve(const MatrixXd& a, const VectorXd& b) {
  if (a.rows() <= a.cols()) return nnls(a, b);
  const Eigen::HouseholderQR<MatrixXd> qr(a);
  const MatrixXd r = qr.matrixQR().topRows(a.cols()).triangularView<Eigen::Upper>();
  const VectorXd rotated = qr.householderQ().adjoint() * b;
  return nnls(r, rotated.head(a.cols()));
}

// Weights that turn squares of relative errors into their absolute values.
VectorXd weights_of(const MatrixXd& terms, const VectorXd& seconds, const VectorXd& x) {
  const VectorXd errors = ((terms * x).array() / seconds.array() - 1).abs();
  return seconds.array().inverse() *
         (errors.array().max(kSmallError) / kTypicalError).sqrt().inverse();
}

}  // namespace

VectorXd fit_additive(const MatrixXd& terms, const VectorXd& seconds, const VectorXd& typical) {
  if (seconds.size() < terms.cols()) {
    if (seconds.size() == 0) return typical;
    return typical.cwiseProduct(adapt_additive(terms * typical.asDiagonal(), seconds));
  }
  VectorXd weights = seconds.cwiseInverse(), x;
  for (int round = 0; round < kRounds; ++round) {
    x = solve(weights.asDiagonal() * terms, weights.cwiseProduct(seconds));
    weights = weights_of(terms, seconds, x);
  }
  return x;
}

VectorXd adapt_additive(const MatrixXd& terms, const VectorXd& seconds) {
  const Index count = terms.cols();
  VectorXd factors = VectorXd::Constant(count, common_factor(terms.rowwise().sum(), seconds));
  MatrixXd a(terms.rows() + count, count);
  VectorXd b(a.rows());
  a.bottomRows(count) = std::sqrt(kRidge) * MatrixXd::Identity(count, count);
  b.tail(count) = std::sqrt(kRidge) * factors;
  VectorXd weights = seconds.cwiseInverse();
  for (int round = 0; round < kRounds; ++round) {
    a.topRows(terms.rows()) = weights.asDiagonal() * terms;
    b.head(terms.rows()) = weights.cwiseProduct(seconds);
    factors = solve(a, b);
    weights = weights_of(terms, seconds, factors);
  }
  return factors;
}

double common_factor(const VectorXd& predicted, const VectorXd& measured) {
  std::vector<double> ratios;
  for (Index i = 0; i < measured.size(); ++i) ratios.push_back(measured(i) / predicted(i));
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  return *middle;
}

VectorXd typical_of(const std::vector<Term>& terms) {
  VectorXd typical(static_cast<Index>(terms.size()));
  for (std::size_t i = 0; i < terms.size(); ++i) typical(static_cast<Index>(i)) = terms[i].typical;
  return typical;
}

Json to_json(const std::vector<Term>& terms, const VectorXd& coefficients) {
  Json json = Json::object();
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const double value = coefficients(static_cast<Index>(i));
    if (value > 0) json[terms[i].name] = value;
  }
  return json;
}

VectorXd coefficients_from_json(const std::vector<Term>& terms, const Json& json,
                                const std::string& path) {
  JsonFields fields(json, path);
  VectorXd coefficients(static_cast<Index>(terms.size()));
  for (std::size_t i = 0; i < terms.size(); ++i) {
    coefficients(static_cast<Index>(i)) = fields.number(terms[i].name, 0, 1e9, 0);
  }
  fields.finish();
  if (coefficients.maxCoeff() <= 0) {
    refuse(path, "no coefficient is positive, so every time would be 0 s");
  }
  return coefficients;
}

}  // namespace tessera::cost::models
