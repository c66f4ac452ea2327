// Weights in bytes, and the time that loading them takes.

#include <algorithm>

#include "tessera/cost/memory.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver {

WeightBytes weight_bytes(const Problem& problem, const Instance& instance) {
  WeightBytes weights;
  weights.embedding = instance.embedding_bytes;
  const ServingProblem* serving = problem.serving();
  if (serving == nullptr) {
    weights.layer = instance.layer_bytes;
    return weights;
  }
  const cost::MemoryQuery query = memory_query(*serving);
  for (const LayerShape& layer : serving->model.layer_classes) {
    for (const std::int32_t bit : serving->bitwidths) {
      weights.layer.push_back(cost::layer_weight_bytes(layer, bit, query));
    }
  }
  return weights;
}

double transfer_s(const ServingProblem& serving, const Instance& instance, const Candidate& plan,
                  const Moves& moves, const std::vector<Holding>& holdings,
                  const WeightBytes& weights) {
  const Cluster& cluster = serving.cluster;
  const auto holds = [&](const std::optional<std::size_t>& holding, std::size_t layer,
                         std::int32_t bitwidth) {
    if (!holding) return false;
    const Holding& h = holdings[*holding];
    return layer >= h.first_layer && layer < h.first_layer + h.bitwidths.size() &&
           h.bitwidths[layer - h.first_layer] == bitwidth;
  };
  const auto members = stage_members(serving, plan.order);
  double slowest = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    const std::size_t device = members[k].front();
    const double pcie = cluster.devices[device].device.pcie_bytes_per_s;
    double seconds = 0, layers_bytes = 0;
    for (std::size_t layer = plan.first_layer[k]; layer < plan.first_layer[k + 1]; ++layer) {
      const std::size_t bit = plan.bit[layer];
      const std::int32_t bitwidth = instance.bitwidths[bit];
      if (holds(moves.from[k], layer, bitwidth)) continue;
      double rate = pcie;
      for (std::size_t m = 0; m < members.size(); ++m) {
        if (m == k || !holds(moves.from[m], layer, bitwidth)) continue;
        rate = std::max(rate, cluster.link(members[m].front(), device).bytes_per_s);
      }
      const auto cls = static_cast<std::size_t>(instance.layer_class[layer]);
      const double bytes = weights.layer[cls * instance.num_bits() + bit];
      seconds += bytes / rate;
      layers_bytes += bytes;
    }
    seconds += std::max(0.0, moves.loaded_bytes[k] - layers_bytes) / pcie;  // embeddings
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace tessera::solver
