// What plans of a problem lose, from what is known of the model's losses.

#include "tessera/core/quality.h"

#include <numeric>

#include "kv_omega.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {
namespace {

/// Nats lost by the KV cache: what the script says where omega is in nats, else what is published.
double kv_nats(const BatchProblem& batch) {
  const QualityLevels& levels = *batch.levels;
  const auto given = batch.kv_omega.find(batch.kv_bitwidth);
  const bool in_nats =
      batch.indicator.kind == kQualityIndicator || is_measured_loss(batch.indicator);
  if (!in_nats || given == batch.kv_omega.end()) return levels.kv_at(batch.kv_bitwidth);
  return std::accumulate(given->second.begin(), given->second.end(), 0.0);
}

}  // namespace

std::optional<Quality> quality_of(const BatchProblem& batch,
                                  const std::vector<std::int32_t>& bitwidths) {
  if (!batch.levels) return std::nullopt;
  const bool is_made = batch.indicator.kind == kQualityIndicator;
  const Indicator losses =
      is_made ? batch.indicator : losses_by_layer(*batch.levels, batch.indicator);
  double nats = 0;
  for (std::size_t layer = 0; layer < bitwidths.size(); ++layer) {
    nats += losses.at(layer, bitwidths[layer]);
  }
  return quality_of(*batch.levels, nats, kv_nats(batch));
}

}  // namespace tessera::solver
