// The largest rate: all devices are used.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/pool_pair.h"
#include "tessera/solver/deploy/priced_configurations.h"

namespace tessera::solver {
namespace {

constexpr std::int64_t kPoolTries = 4;  // pools that are simulated, for each type of device
constexpr std::size_t kRatios = 3;      // of the same two configurations
constexpr double kAlike = 1.08;         // times another, an estimate that is as good
constexpr std::size_t kMostTypes = 5;   // that are put beside each other, in every set
constexpr double kTogether = 1.1;       // times what each does alone, about what they do together
constexpr double kPoolShare = 0.5;      // of the requests, for pools

/// The best engines of several types, and what they promise alone.
struct TypesTogether {
  std::vector<DeploymentPart> parts;
  double promise_per_s = 0;
};

/// Whether no two take devices of the same type.
bool are_apart(const std::vector<DeploymentPart>& parts) {
  std::set<std::string> types;
  for (const DeploymentPart& part : parts) {
    for (const std::string& type : part.engine->type->types) {
      if (!types.insert(type).second) return false;
    }
  }
  return true;
}

/// The best ratios about the balance of the bounds, or with all that is left where the balance has
/// no room.
void add_ratios(const ServingSearch& search, const DeploymentObjective& objective,
                const JoinedPools& pools, std::vector<PoolPair>& list) {
  const auto& [p, d] = pools;
  std::vector<PoolPair> own;
  for (std::int64_t x = 1; x <= p->capacity; ++x) {
    const double balance = std::floor(static_cast<double>(x) * p->bounds.prefill_rate_per_s /
                                      d->bounds.decode_rate_per_s);
    const auto room = static_cast<double>(room_beside(*p, x, *d));
    const auto last =
        static_cast<std::int64_t>(std::min(balance + static_cast<double>(kMoreEngines), room));
    for (auto y = static_cast<std::int64_t>(std::max(1.0, std::min(balance, room))); y <= last;
         ++y) {
      own.push_back(pool_pair(search, objective, p, x, d, y));
    }
  }
  std::sort(own.begin(), own.end(), [](const PoolPair& a, const PoolPair& b) {
    if (a.estimate_per_s != b.estimate_per_s) return a.estimate_per_s > b.estimate_per_s;
    return std::pair(a.x, a.y) < std::pair(b.x, b.y);
  });
  own.resize(std::min(own.size(), kRatios));
  list.insert(list.end(), own.begin(), own.end());
}

/// Of those whose estimates hardly differ first the one that takes the fewest engines to simulate,
/// so that it is what others have to beat.
std::vector<PoolPair> in_order(std::vector<PoolPair> list) {
  double most = 0;
  for (const PoolPair& pools : list) most = std::max(most, pools.estimate_per_s);
  const auto rank = [&](const PoolPair& a) {
    return std::tuple(std::floor(std::log(most / a.estimate_per_s) / std::log(kAlike)),
                      (a.x + a.y) / a.times(), -a.estimate_per_s, a.cost);
  };
  std::sort(list.begin(), list.end(), [&](const PoolPair& a, const PoolPair& b) {
    const auto left = rank(a), right = rank(b);
    return left != right ? left < right : a.name() < b.name();
  });
  return list;
}

class LargestRate final : public DeploymentObjective {
 public:
  double cost(const Configuration& configuration, std::int64_t count) const override {
    return static_cast<double>(count * configuration.gpus());
  }

  bool may_win(const PricedConfiguration& c, const PricedConfiguration& best) const override {
    const auto count = static_cast<double>(c.capacity);
    return c.bounds.rate_per_s * count > best.total_per_s() &&
           c.estimate_per_s * count >= 0.8 * best.total_per_s();
  }

  double bar_per_s(const PricedConfiguration& c, const PricedConfiguration& best) const override {
    return best.total_per_s() / static_cast<double>(c.capacity);
  }

  std::vector<FoundDeployment> shared_phases(ServingSearch& search,
                                             const std::vector<BestOfType>& types) const override {
    std::vector<FoundDeployment> list;
    for (const BestOfType& type : types) {
      for (const PricedPtr& c : type.best) {
        list.push_back({{{c, c->capacity}}, c->found, c->capacity, Scope::one_engine});
      }
    }
    for (std::vector<PricedPtr>& engines : alike_engines(search, types)) {
      beside_each_other(search, std::move(engines), types, list);
    }
    return list;
  }

  /// Each better than the one before it; and where the best may stand first, what serves about as
  /// much with an engine less.
  std::vector<FoundDeployment> pools(ServingSearch& search, const std::vector<BestOfType>& types,
                                     const std::vector<FoundDeployment>& shared) const override {
    std::vector<PoolPair> list;
    for (const JoinedPools& pools : joined_pools(search, types)) {
      add_ratios(search, *this, pools, list);
    }
    std::vector<FoundDeployment> results;
    std::optional<PoolPair> best;
    std::int64_t tries = kPoolTries * std::ssize(types);
    for (const PoolPair& pools : in_order(std::move(list))) {
      if (tries == 0) break;
      const double so_far = results.empty() ? 0 : results.back().rate_per_s();
      const bool may_win = !best || kFiniteRun * pools.bound_per_s > kBetterBy * so_far;
      if (!may_win || !search.place(pools.parts())) {
        ++search.bounded;
        continue;
      }
      --tries;
      auto found = simulated(search, pools, pools.estimate_per_s, kBetterBy * so_far);
      if (!found) continue;
      best = pools;
      results.push_back(std::move(*found));
    }
    if (!best) return results;
    results.back() = tuned(search, *best, results.back());
    const double most = results.back().rate_per_s();
    if (most > kWorthIt * best_rate(shared)) add_smaller(search, *best, most, results);
    return results;
  }

 private:
  static double best_rate(const std::vector<FoundDeployment>& list) {
    double best_per_s = 0;
    for (const FoundDeployment& each : list) best_per_s = std::max(best_per_s, each.rate_per_s());
    return best_per_s;
  }

  /// Pools with an engine less, which are as good where the other pool is what limits them: on the
  /// devices that these take they may be worth more than on all.
  void add_smaller(ServingSearch& search, const PoolPair& best, double most_per_s,
                   std::vector<FoundDeployment>& list) const {
    for (const auto& [x, y] : {std::pair(best.x - 1, best.y), std::pair(best.x, best.y - 1)}) {
      if (x < 1 || y < 1) continue;
      const PoolPair pools = pool_pair(search, *this, best.prefill, x, best.decode, y);
      auto found = simulated(search, pools, std::min(pools.estimate_per_s, most_per_s),
                             most_per_s / kWorthIt);
      if (found) list.push_back(std::move(*found));
    }
  }

  /// Every set of engines on different types, the most promising first.
  static std::vector<TypesTogether> sets_of(std::vector<PricedPtr> engines) {
    std::sort(engines.begin(), engines.end(), [](const PricedPtr& a, const PricedPtr& b) {
      return a->total_per_s() > b->total_per_s();
    });
    engines.resize(std::min(engines.size(), kMostTypes));
    std::vector<TypesTogether> sets;
    for (std::size_t set = 1; set < std::size_t{1} << engines.size(); ++set) {
      TypesTogether together;
      for (std::size_t k = 0; k < engines.size(); ++k) {
        if ((set >> k & 1) == 0) continue;
        together.parts.push_back({engines[k], engines[k]->capacity});
        together.promise_per_s += engines[k]->total_per_s();
      }
      if (together.parts.size() > 1 && are_apart(together.parts))
        sets.push_back(std::move(together));
    }
    std::stable_sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) {
      return a.promise_per_s > b.promise_per_s;
    });
    return sets;
  }

  /// Adds the best engines of several types together. A slow type may cost the others more than it
  /// brings, since each engine gets requests that have to keep to the SLO: so every set of types
  /// that may be better than what is known is tried, and of the best its neighbours, as long as one
  /// is better.
  static void beside_each_other(ServingSearch& search, std::vector<PricedPtr> engines,
                                const std::vector<BestOfType>& types,
                                std::vector<FoundDeployment>& list) {
    double best_per_s = best_rate(list);
    std::vector<DeploymentPart> best;  // until one is better what was tried first
    std::set<std::string> tried;
    const auto is_better = [&](const std::vector<DeploymentPart>& parts, double guess_per_s) {
      std::string name;
      for (const DeploymentPart& part : parts) {
        name += fmt::format("{} x {};", part.count, part.engine->name());
      }
      if (!tried.insert(name).second) return false;
      if (best.empty()) best = parts;
      const auto found = search.sustained(parts, {.guess_per_s = guess_per_s,
                                                  .least_per_s = best_per_s,
                                                  .residence_s = residence_of(parts),
                                                  .num_engines = num_engines(parts)});
      if (!found) return false;
      list.push_back({parts, found});
      if (found->rate_per_s <= best_per_s) return false;
      best_per_s = found->rate_per_s;
      best = parts;
      return true;
    };
    for (const TypesTogether& each : sets_of(std::move(engines))) {
      if (each.promise_per_s * kTogether <= best_per_s) {
        ++search.bounded;
      } else {
        is_better(each.parts, each.promise_per_s);
      }
    }
    for (bool goes_on = !best.empty(); goes_on;) {
      const auto next = neighbours(types, best);
      goes_on = std::any_of(next.begin(), next.end(),
                            [&](const auto& other) { return is_better(other, best_per_s); });
    }
  }

  /// The best engine alone need not be the best beside others, nor need all of the slowest help.
  static std::vector<std::vector<DeploymentPart>> neighbours(
      const std::vector<BestOfType>& types, const std::vector<DeploymentPart>& parts) {
    std::vector<std::vector<DeploymentPart>> list;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      for (const PricedPtr& other : about_as_good(types, *parts[k].engine)) {
        list.push_back(parts);
        list.back()[k] = {other, other->capacity};
      }
    }
    if (parts.back().count > 1) {
      list.push_back(parts);
      --list.back().back().count;
    }
    return list;
  }

  /// Engines of other shapes on the same devices, at the same bits.
  static std::vector<PricedPtr> about_as_good(const std::vector<BestOfType>& types,
                                              const PricedConfiguration& engine) {
    std::vector<PricedPtr> list;
    std::set<std::string> shapes = {engine.shape()};
    for (const BestOfType& type : types) {
      for (const PricedPtr& other : type.best) {
        const bool is_alike = other->type == engine.type && other->bitwidth == engine.bitwidth;
        if (!is_alike || other->total_per_s() * kAboutAsGood < engine.total_per_s()) continue;
        if (shapes.insert(other->shape()).second) list.push_back(other);
      }
    }
    return list;
  }

  /// Pools by the smallest set in their ratio, where they hold `least_per_s`.
  static std::optional<FoundDeployment> simulated(ServingSearch& search, const PoolPair& pools,
                                                  double guess_per_s, double least_per_s) {
    const std::int64_t times = pools.times();
    const std::vector<DeploymentPart> parts = pools.parts(times);
    const auto engines = static_cast<double>(num_engines(parts));
    const auto found = search.sustained(
        parts, {.guess_per_s = guess_per_s / static_cast<double>(times),
                .least_per_s = least_per_s / static_cast<double>(times),
                .residence_s = residence_of(search, pools),
                .num_engines = static_cast<std::int64_t>(std::ceil(engines * kPoolShare))});
    if (!found) return std::nullopt;
    return FoundDeployment{pools.parts(), found, times, Scope::half};
  }

  /// The result, or what is better with fewer tokens of a prefill step.
  static FoundDeployment tuned(ServingSearch& search, const PoolPair& pools,
                               FoundDeployment result) {
    PoolPair other = pools;
    other.prefill = with_fewer_tokens(search, *pools.prefill, serving::Role::prefill);
    if (other.prefill == nullptr) return result;
    const double rate = result.rate_per_s();
    return simulated(search, other, rate, kWorthIt * rate).value_or(result);
  }
};

}  // namespace

std::unique_ptr<DeploymentObjective> largest_rate() { return std::make_unique<LargestRate>(); }

}  // namespace tessera::solver
