#include "ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

/// The rate that a deployment is ranked by: of what was simulated whole the one that was too much
/// for it, as others only have what their parts promise.
double rank_rate(const FoundDeployment& found) {
  if (found.scope != Scope::whole || !found.found->fails_at_per_s) return found.rate_per_s();
  return *found.found->fails_at_per_s * static_cast<double>(found.times);
}

/// Better first, by the objective; of equals what needs no second pool; then by the other measures,
/// so that the order is the same every time.
struct Before {
  ServingGoal goal;

  std::array<double, 4> keys(const FoundDeployment& found) const {
    const double rate = -rank_rate(found), gpus = static_cast<double>(found.gpus());
    double first = gpus;
    if (goal == ServingGoal::rate) first = rate;
    if (goal == ServingGoal::cost) first = found.usd_per_h().value_or(kUnpriced);
    return {first, is_disaggregated(found) ? 1.0 : 0.0, gpus, rate};
  }
  bool operator()(const FoundDeployment& a, const FoundDeployment& b) const {
    const auto left = keys(a), right = keys(b);
    return left != right ? left < right : layout_of(a.parts) < layout_of(b.parts);
  }
};

/// Simulated whole, from the rate that it promises. Where it misses the rate that is wanted, one
/// engine more; absent where that is no answer.
std::optional<FoundDeployment> confirmed(ServingSearch& search,
                                         const DeploymentObjective& objective,
                                         const FoundDeployment& promised) {
  const std::optional<double> wanted = objective.wanted_per_s();
  const auto found =
      search.sustained(promised.parts, {.guess_per_s = wanted.value_or(promised.rate_per_s()),
                                        .least_per_s = wanted.value_or(0),
                                        .residence_s = promised.found->served->summary.e2e_s.mean,
                                        .num_engines = num_engines(promised.parts)});
  if (found) return FoundDeployment{promised.parts, found};
  const DeploymentPart& part = promised.parts.front();
  if (!wanted || promised.parts.size() > 1 || part.count >= part.engine->capacity) {
    return std::nullopt;
  }
  const std::int64_t count = part.count + 1;
  return FoundDeployment{{{part.engine, count}}, part.engine->found, count, Scope::one_engine};
}

/// The first that is not known well enough: the first of all, or behind pools the first that shares
/// engines, so that it may be compared.
std::vector<FoundDeployment>::iterator unsure(std::vector<FoundDeployment>& found) {
  if (found.front().scope != Scope::whole) return found.begin();
  if (!is_disaggregated(found.front())) return found.end();
  const auto shared = std::find_if_not(found.begin(), found.end(), is_disaggregated);
  return shared != found.end() && shared->scope != Scope::whole ? shared : found.end();
}

}  // namespace

bool is_disaggregated(const FoundDeployment& found) {
  return found.parts.front().role != serving::Role::mixed;
}

std::vector<FoundDeployment> ranked(ServingSearch& search, const DeploymentObjective& objective,
                                    std::vector<FoundDeployment> found) {
  const Before before{search.request().objective};
  std::sort(found.begin(), found.end(), before);
  while (!found.empty()) {
    const auto at = unsure(found);
    if (at == found.end()) break;
    if (auto whole = confirmed(search, objective, *at)) {
      *at = std::move(*whole);
    } else {
      found.erase(at);
    }
    std::sort(found.begin(), found.end(), before);
  }
  return found;
}

std::string prefer_one_pool(std::vector<FoundDeployment>& found) {
  if (found.empty() || !is_disaggregated(found.front())) return {};
  const auto shared = std::find_if_not(found.begin(), found.end(), is_disaggregated);
  if (shared == found.end()) return {};
  if (shared->rate_per_s() * (1 + kKnownTo) < found.front().rate_per_s()) return {};
  std::string words = fmt::format(
      "{} sustains {:.4g} req/s, within the {:g} % that rates are known to; one pool is simpler",
      layout_of(found.front().parts), found.front().rate_per_s(), 100 * kKnownTo);
  std::rotate(found.begin(), shared, shared + 1);
  return words;
}

std::optional<double> shared_over_pools(const std::vector<FoundDeployment>& found) {
  const auto rate_per_gpu = [&](bool disaggregated) -> std::optional<double> {
    for (const FoundDeployment& each : found) {
      if (is_disaggregated(each) != disaggregated) continue;
      return each.rate_per_s() / static_cast<double>(each.gpus());
    }
    return std::nullopt;
  };
  const auto shared = rate_per_gpu(false), pools = rate_per_gpu(true);
  if (!shared || !pools) return std::nullopt;
  return *shared / *pools;
}

}  // namespace tessera::solver
