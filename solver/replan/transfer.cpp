// Weights in bytes, and the time that loading them takes.

#include <algorithm>

#include "tessera/cost/memory.h"
#include "tessera/solver/replan.h"

namespace tessera::solver {

WeightBytes weight_bytes(const Problem& problem, const Instance& instance) {
  WeightBytes weights;
  weights.embedding = instance.embedding_bytes;
  if (!problem.serving) {
    weights.layer = instance.layer_bytes;
    return weights;
  }
  const ServingProblem& serving = *problem.serving;
  const cost::MemoryQuery query = memory_query(serving);
  for (const LayerShape& layer : serving.model.layer_classes) {
    for (const std::int32_t bit : serving.bitwidths) {
      weights.layer.push_back(cost::layer_weight_bytes(layer, bit, query));
    }
  }
  return weights;
}

double transfer_s(const Cluster& cluster, const Instance& instance, const Plan& plan,
                  const Moves& moves, const std::vector<Holding>& holdings,
                  const WeightBytes& weights) {
  const auto holds = [&](const std::optional<std::size_t>& holding, std::size_t layer,
                         std::int32_t bitwidth) {
    if (!holding) return false;
    const Holding& h = holdings[*holding];
    return layer >= h.first_layer && layer < h.first_layer + h.bitwidths.size() &&
           h.bitwidths[layer - h.first_layer] == bitwidth;
  };
  const auto device = [&](std::size_t k) {
    return static_cast<std::size_t>(plan.stages[k].device_index);
  };
  double slowest = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    const double pcie = cluster.devices[device(k)].device.pcie_bytes_per_s;
    double seconds = 0, layers_bytes = 0;
    for (std::size_t i = 0; i < stage.bitwidths.size(); ++i) {
      const std::size_t layer = static_cast<std::size_t>(stage.first_layer) + i;
      const std::int32_t bitwidth = stage.bitwidths[i];
      if (holds(moves.from[k], layer, bitwidth)) continue;
      double rate = pcie;
      for (std::size_t m = 0; m < plan.stages.size(); ++m) {
        if (m == k || !holds(moves.from[m], layer, bitwidth)) continue;
        rate = std::max(rate, cluster.link(device(m), device(k)).bytes_per_s);
      }
      const auto bit = static_cast<std::size_t>(
          std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bitwidth) -
          instance.bitwidths.begin());
      const double bytes =
          weights
              .layer[static_cast<std::size_t>(instance.layer_class[layer]) * instance.num_bits() +
                     bit];
      seconds += bytes / rate;
      layers_bytes += bytes;
    }
    seconds += std::max(0.0, moves.loaded_bytes[k] - layers_bytes) / pcie;  // embeddings
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace tessera::solver
