#include "tessera/solver/problem/quality_bound.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tessera/core/published_quality.h"

namespace tessera::solver {
namespace {

/// How the cluster's devices hold each bitwidth; 4 bits are there as well, since omega is
/// normalised at them.
std::map<std::int32_t, std::vector<WeightFormat>> formats_of(const cost::PricingContext& context,
                                                             std::vector<std::int32_t> bitwidths) {
  std::map<std::int32_t, std::vector<WeightFormat>> formats;
  bitwidths.push_back(4);
  for (const std::int32_t bitwidth : bitwidths) {
    std::vector<WeightFormat>& found = formats[bitwidth];
    for (const ClusterDevice& slot : context.cluster.devices) {
      const cost::KernelRule* rule = context.kernel_set.find(slot.device, bitwidth);
      if (rule == nullptr) continue;
      const WeightFormat format = rule->format();
      if (std::find(found.begin(), found.end(), format) == found.end()) found.push_back(format);
    }
    if (found.empty()) found.push_back(WeightFormat::weights_only);
  }
  return formats;
}

/// A loss that ran the model is over the model at 16 bits, where nothing is lost.
void add_16_bits(Indicator& losses) {
  if (losses.has(16) || losses.bitwidths.back() > 16) return;
  const std::size_t before = losses.bitwidths.size();
  std::vector<double> omega, error;
  for (std::size_t layer = 0; layer < losses.num_layers; ++layer) {
    for (std::size_t b = 0; b <= before; ++b) {
      const std::size_t i = layer * before + b;
      omega.push_back(b < before ? losses.omega[i] : 0);
      if (!losses.standard_error.empty()) {
        error.push_back(b < before ? losses.standard_error[i] : 0);
      }
    }
  }
  losses.bitwidths.push_back(16);
  losses.omega = std::move(omega);
  losses.standard_error = std::move(error);
}

bool covers(const Indicator& indicator, const BatchProblem& batch) {
  if (indicator.num_layers != static_cast<std::size_t>(batch.model.num_layers)) return false;
  return std::all_of(batch.bitwidths.begin(), batch.bitwidths.end(),
                     [&](std::int32_t bitwidth) { return indicator.has(bitwidth); });
}

/// Normalised as the planner's omega is.
double normaliser(const Problem& problem) {
  if (problem.theta_unit != ThetaUnit::s_per_normalised_omega) return 1;
  const Indicator& losses = problem.batch()->indicator;
  const std::int32_t reference = losses.has(4) ? 4 : losses.bitwidths.front();
  double total = 0;
  for (std::size_t layer = 0; layer < losses.num_layers; ++layer) {
    total += losses.at(layer, reference);
  }
  return total > 0 ? 1 / total : 1;
}

}  // namespace

void set_quality(Problem& problem, const DataFolders& folders, bool in_nats) {
  BatchProblem& batch = *problem.batch();
  if (is_measured_loss(batch.indicator)) add_16_bits(batch.indicator);
  const Indicator given = batch.indicator;
  // An indicator of another model is refused when the problem is lowered.
  if (given.num_layers != static_cast<std::size_t>(batch.model.num_layers)) return;
  const std::string& origin = given.kind == kQualityIndicator ? given.variant : given.kind;
  const bool is_own = origin == "loss" || origin == "divergence";
  QualityLevels levels = published_quality(batch.model, formats_of(batch, batch.bitwidths),
                                           batch.quantisation, folders);
  if (is_own && covers(given, batch)) {
    const double spread = additivity_spread(folders);
    levels = measured_levels(levels, given, spread);
  }
  const bool is_bound = problem.bound.is_set();
  const double most = is_bound ? most_nats(levels, problem.bound) : 0;
  if (is_bound || in_nats) {
    if (given.kind != kQualityIndicator || !is_own) {
      batch.indicator = losses_by_layer(levels, given);
      if (given.kind == kQualityIndicator) batch.indicator.variant = given.variant;
    }
    batch.levels = std::move(levels);
    if (is_bound) problem.max_omega = most * normaliser(problem);
    return;
  }
  batch.levels = std::move(levels);
}

Quality published_quality_of(const cost::PricingContext& context,
                             const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                             const DataFolders& folders) {
  const QualityLevels levels = published_quality(context.model, formats_of(context, bitwidths),
                                                 quantisation_methods().front(), folders);
  Indicator evenly;
  evenly.kind = "constant";
  evenly.num_layers = bitwidths.size();
  const Indicator losses = losses_by_layer(levels, evenly);
  double nats = 0;
  for (std::size_t layer = 0; layer < bitwidths.size(); ++layer) {
    nats += losses.at(layer, bitwidths[layer]);
  }
  return quality_of(levels, nats, levels.kv_at(kv_bitwidth));
}

}  // namespace tessera::solver
