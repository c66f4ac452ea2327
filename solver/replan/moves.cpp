// What a plan loads anew, and the least that any plan must.

#include <algorithm>
#include <limits>

#include "assignment.h"
#include "tessera/solver/replan/replan.h"

namespace tessera::solver {
namespace {

bool holds(const Holding& holding, std::size_t layer, std::int32_t bitwidth) {
  return layer >= holding.first_layer && layer < holding.first_layer + holding.bitwidths.size() &&
         holding.bitwidths[layer - holding.first_layer] == bitwidth;
}

bool same_device(const Instance& instance, std::size_t group, const Holding& holding) {
  return instance.groups[group].name == holding.device &&
         instance.groups[group].node == holding.node;
}

/// A stage against what its device holds.
struct Comparison {
  double kept_bytes = 0, loaded_bytes = 0;
  std::int64_t loaded_layers = 0;
};

Comparison compare(const Instance& instance, const Candidate& plan, std::size_t stage,
                   const Holding* holding, const WeightBytes& weights) {
  Comparison c;
  for (std::size_t i = plan.first_layer[stage]; i < plan.first_layer[stage + 1]; ++i) {
    const auto cls = static_cast<std::size_t>(instance.layer_class[i]);
    const double bytes = weights.layer[cls * instance.num_bits() + plan.bit[i]];
    const bool kept = holding != nullptr && holds(*holding, i, instance.bitwidths[plan.bit[i]]);
    (kept ? c.kept_bytes : c.loaded_bytes) += bytes;
    if (!kept) ++c.loaded_layers;
  }
  const std::size_t group = plan.order[stage];
  const StagePlace place = place_at(stage, plan.order.size());
  const StagePlace held = holding == nullptr ? StagePlace::middle
                                             : stage_place(holding->first && is_first(place),
                                                           holding->last && is_last(place));
  const double needed = weights.embedding[instance.index_of(group, place)];
  const double kept = std::min(needed, weights.embedding[instance.index_of(group, held)]);
  c.kept_bytes += kept;
  c.loaded_bytes += needed - kept;
  return c;
}

// Least to load when every one of these holdings is still there.
double least_with(const Instance& instance, const std::vector<Holding>& holdings,
                  const WeightBytes& weights) {
  double total = 0;
  for (std::size_t i = 0; i < instance.num_layers(); ++i) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t bit = 0; bit < instance.num_bits(); ++bit) {
      for (std::size_t g = 0; g < instance.groups.size(); ++g) {
        if (!instance.allowed_at(g, bit)) continue;
        const bool held = std::any_of(holdings.begin(), holdings.end(), [&](const Holding& h) {
          return same_device(instance, g, h) && holds(h, i, instance.bitwidths[bit]);
        });
        const auto cls = static_cast<std::size_t>(instance.layer_class[i]);
        least = std::min(least, held ? 0 : weights.layer[cls * instance.num_bits() + bit]);
      }
    }
    total += least;
  }
  return total;
}

// Where a group has fewer devices than holdings, some are gone: the best choice counts. Too many
// choices are left open, which only lowers the bound.
double least_without(const Instance& instance, const std::vector<Holding>& holdings,
                     const WeightBytes& weights, std::size_t choices) {
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    std::vector<std::size_t> held;
    for (std::size_t h = 0; h < holdings.size(); ++h) {
      if (same_device(instance, g, holdings[h])) held.push_back(h);
    }
    const auto there = static_cast<std::size_t>(instance.groups[g].count);
    if (held.size() <= there || held.size() > choices) continue;
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t h : held) {
      std::vector<Holding> left = holdings;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(h));
      least = std::min(least, least_without(instance, left, weights, choices / held.size()));
    }
    return least;
  }
  return least_with(instance, holdings, weights);
}

}  // namespace

Moves count_moves(const Instance& instance, const Candidate& plan,
                  const std::vector<Holding>& holdings, const WeightBytes& weights) {
  Moves moves;
  moves.from.resize(plan.order.size());
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    std::vector<std::size_t> stages, held;
    for (std::size_t k = 0; k < plan.order.size(); ++k) {
      if (plan.order[k] == g) stages.push_back(k);
    }
    for (std::size_t h = 0; h < holdings.size(); ++h) {
      if (same_device(instance, g, holdings[h])) held.push_back(h);
    }
    std::vector<std::vector<double>> gain;
    for (const std::size_t k : stages) {
      gain.emplace_back();
      for (const std::size_t h : held) {
        gain.back().push_back(compare(instance, plan, k, &holdings[h], weights).kept_bytes);
      }
    }
    const auto chosen = replan_detail::best_assignment(gain);
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (chosen[i] >= 0) moves.from[stages[i]] = held[static_cast<std::size_t>(chosen[i])];
    }
  }
  for (std::size_t k = 0; k < plan.order.size(); ++k) {
    const Holding* holding = moves.from[k] ? &holdings[*moves.from[k]] : nullptr;
    const Comparison c = compare(instance, plan, k, holding, weights);
    moves.moved_layers += c.loaded_layers;
    moves.kept_bytes += c.kept_bytes;
    moves.moved_bytes += c.loaded_bytes;
    moves.loaded_bytes.push_back(c.loaded_bytes);
  }
  return moves;
}

double least_moved_bytes(const Instance& instance, const std::vector<Holding>& holdings,
                         const WeightBytes& weights) {
  constexpr std::size_t kMostChoices = 512;
  return least_without(instance, holdings, weights, kMostChoices);
}

}  // namespace tessera::solver
