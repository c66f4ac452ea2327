// What plans of a problem lose, from what is known of the model's losses.

#include "tessera/core/quality.h"

#include <numeric>

#include "kv_omega.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {
namespace {

/// Nats lost by the KV cache: what the script says where omega is in nats, else what is published.
double kv_nats(const ServingProblem& serving) {
  const QualityLevels& levels = *serving.levels;
  const auto given = serving.kv_omega.find(serving.kv_bitwidth);
  const bool in_nats =
      serving.indicator.kind == kQualityIndicator || is_measured_loss(serving.indicator);
  if (!in_nats || given == serving.kv_omega.end()) return levels.kv_at(serving.kv_bitwidth);
  return std::accumulate(given->second.begin(), given->second.end(), 0.0);
}

}  // namespace

std::optional<Quality> quality_of(const ServingProblem& serving,
                                  const std::vector<std::int32_t>& bitwidths) {
  if (!serving.levels) return std::nullopt;
  const bool is_made = serving.indicator.kind == kQualityIndicator;
  const Indicator losses =
      is_made ? serving.indicator : losses_by_layer(*serving.levels, serving.indicator);
  double nats = 0;
  for (std::size_t layer = 0; layer < bitwidths.size(); ++layer) {
    nats += losses.at(layer, bitwidths[layer]);
  }
  return quality_of(*serving.levels, nats, kv_nats(serving));
}

}  // namespace tessera::solver
