#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "shared.h"

namespace tessera::lm {
namespace {

// Experts of the groups that are not chosen are out.
void leave_groups(std::span<float> wanted, const RoutingRule& rule) {
  const auto groups = static_cast<std::size_t>(rule.num_groups);
  const std::size_t size = wanted.size() / groups;
  std::vector<float> scores(groups), best(size);
  for (std::size_t g = 0; g < groups; ++g) {
    std::ranges::copy(wanted.subspan(g * size, size), best.begin());
    std::ranges::sort(best, std::greater<>());
    scores[g] = std::accumulate(best.begin(), best.begin() + rule.best_of_group, 0.0f);
  }
  std::vector<std::size_t> order(groups);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  for (auto g = static_cast<std::size_t>(rule.active_groups); g < groups; ++g)
    std::ranges::fill(wanted.subspan(order[g] * size, size),
                      -std::numeric_limits<float>::infinity());
}

}  // namespace

Routes route(std::span<const float> scores, std::span<const float> correction,
             std::int64_t num_experts, std::int64_t num_active, const RoutingRule& rule) {
  const auto experts = static_cast<std::size_t>(num_experts);
  const auto active = static_cast<std::size_t>(num_active);
  Routes routes{std::vector<std::vector<std::int64_t>>(experts),
                std::vector<std::vector<float>>(experts)};
  std::vector<float> shares(experts), wanted(experts);
  std::vector<std::size_t> order(experts);
  for (std::size_t row = 0; row * experts < scores.size(); ++row) {
    const std::span<const float> own = scores.subspan(row * experts, experts);
    const float most = *std::ranges::max_element(own);
    float sum = 0;
    for (std::size_t e = 0; e < experts; ++e)
      sum += shares[e] = rule.sigmoid ? 1 / (1 + std::exp(-own[e])) : std::exp(own[e] - most);
    if (rule.sigmoid) sum = 1;
    for (std::size_t e = 0; e < experts; ++e)
      wanted[e] = correction.empty() && rule.num_groups == 1
                      ? own[e]
                      : shares[e] / sum + (correction.empty() ? 0 : correction[e]);
    if (rule.num_groups > 1) leave_groups(wanted, rule);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return wanted[a] > wanted[b]; });
    if (rule.normalise) {
      sum = 0;
      for (std::size_t i = 0; i < active; ++i) sum += shares[order[i]];
    }
    for (std::size_t i = 0; i < active; ++i) {
      routes.rows[order[i]].push_back(static_cast<std::int64_t>(row));
      routes.weights[order[i]].push_back(shares[order[i]] / sum * rule.scale);
    }
  }
  return routes;
}

}  // namespace tessera::lm
