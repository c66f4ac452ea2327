#include "kv_omega.h"

#include <cmath>
#include <numeric>

namespace tessera::solver {
namespace {

// The indicator's reference bitwidth, at which a model has W = 1 once it is normalised.
std::int32_t reference_of(const Indicator& indicator) {
  return indicator.has(4) ? 4 : indicator.bitwidths.front();
}

double total_at(const Indicator& indicator, std::int32_t bitwidth) {
  double total = 0;
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    total += indicator.at(layer, bitwidth);
  }
  return total;
}

// Variance of a rounding step at `bitwidth`, by the range of values.
double step_variance(std::int32_t bitwidth) {
  const double step = 1 / (std::ldexp(1.0, bitwidth - 1) - 1);
  return step * step;
}

double kv_share(const LayerShape& layer) {
  if (layer.linears.empty()) return 0;
  const auto hidden = static_cast<double>(layer.linears.front().in_features);
  const auto width = static_cast<double>(kv_values_per_token(layer));
  return hidden * width / static_cast<double>(layer.linear_parameters());
}

}  // namespace

double omega_scale(const Problem& problem) {
  if (problem.theta_unit != ThetaUnit::s_per_normalised_omega) return 1;
  const Indicator& indicator = problem.batch()->indicator;
  const double total = total_at(indicator, reference_of(indicator));
  return total > 0 ? 1 / total : 1;
}

std::vector<double> kv_omega(const BatchProblem& batch) {
  const auto layers = static_cast<std::size_t>(batch.model.num_layers);
  const auto given = batch.kv_omega.find(batch.kv_bitwidth);
  if (given != batch.kv_omega.end()) return given->second;
  if (batch.kv_bitwidth >= 16) return std::vector<double>(layers, 0);
  const Indicator& indicator = batch.indicator;
  if (indicator.kind == kQualityIndicator && batch.levels) {
    const QualityLevels& levels = *batch.levels;
    const double nats = levels.kv_weight * levels.kv_at(batch.kv_bitwidth);
    return std::vector<double>(layers, nats / static_cast<double>(layers));
  }
  const std::int32_t reference = reference_of(indicator);
  const double mean = total_at(indicator, reference) / static_cast<double>(layers);
  const double ratio = step_variance(batch.kv_bitwidth) / step_variance(4);
  std::vector<double> omega;
  for (std::size_t i = 0; i < layers; ++i) {
    omega.push_back(kv_share(batch.model.layer(static_cast<std::int64_t>(i))) * ratio * mean);
  }
  return omega;
}

double total_kv_omega(const Problem& problem) {
  if (problem.batch() == nullptr) return 0;
  const std::vector<double> omega = kv_omega(*problem.batch());
  return omega_scale(problem) * std::accumulate(omega.begin(), omega.end(), 0.0);
}

}  // namespace tessera::solver
