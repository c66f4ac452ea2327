#include <algorithm>
#include <cmath>
#include <numeric>

#include "shared.h"

namespace tessera::lm {

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
      wanted[e] = correction.empty() ? own[e] : shares[e] / sum + correction[e];
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
