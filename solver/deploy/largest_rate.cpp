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

constexpr std::int64_t kPoolTries = 4;     // pools that are simulated, for each type of device
constexpr std::size_t kRatios = 3;         // of the same two configurations
constexpr double kAlike = 1.08;            // times another, an estimate that is as good
constexpr std::size_t kMostShapes = 3;     // of a type, that are put beside engines of others
constexpr double kTogether = 1.5;          // times what each does alone, the most they do together
constexpr std::size_t kMostSets = 20'000;  // that are looked at
constexpr std::int64_t kBesideTries = 16;  // of these that are simulated, at each bitwidth
constexpr double kMoreToTheSmall = 1.4;    // times its share, what is tried for a slow engine

/// The best engines of several types, and what they promise alone.
struct TypesTogether {
  std::vector<DeploymentPart> parts;
  double promise_per_s = 0;
  bool is_of_the_best = true;  ///< of each type the best engine, as many as there is room for
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

/// The best ratios about the balance of the bounds.
void add_ratios(const ServingSearch& search, const DeploymentObjective& objective,
                const JoinedPools& pools, std::vector<PoolPair>& list) {
  std::vector<PoolPair> own = pairs_in_balance(search, objective, pools);
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
    for (const auto& engines : alike_engines(search, types, kMostShapes)) {
      beside_each_other(search, engines, list);
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

  /// Every set of engines on different types, each of as many as its devices allow or one less:
  /// first those of the best engines, then the others, the most promising first.
  static std::vector<TypesTogether> sets_of(const std::vector<PricedPtr>& engines) {
    std::vector<TypesTogether> sets = {{}};
    std::set<std::string> known;
    for (const PricedPtr& engine : engines) {
      const bool is_best = known.insert(engine->type->name).second;
      const std::int64_t least = std::max<std::int64_t>(1, engine->capacity - 1);
      for (std::size_t k = 0, before = sets.size(); k < before && sets.size() < kMostSets; ++k) {
        for (std::int64_t count = engine->capacity; count >= least; --count) {
          TypesTogether together = sets[k];
          together.parts.push_back({engine, count});
          if (!are_apart(together.parts)) break;
          together.promise_per_s += static_cast<double>(count) * engine->rate_per_s;
          together.is_of_the_best &= is_best && count == engine->capacity;
          sets.push_back(std::move(together));
        }
      }
    }
    std::erase_if(sets, [](const TypesTogether& set) { return set.parts.size() < 2; });
    std::stable_sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) {
      return std::pair(a.is_of_the_best, a.promise_per_s) >
             std::pair(b.is_of_the_best, b.promise_per_s);
    });
    return sets;
  }

  /// Adds engines of several types together. A slow type may cost the others more than it brings,
  /// since each engine gets requests that have to keep to the SLO, and what is the best alone need
  /// not be so beside others: every set that may be better than what is known is tried.
  static void beside_each_other(ServingSearch& search, std::vector<PricedPtr> engines,
                                std::vector<FoundDeployment>& list) {
    std::stable_sort(engines.begin(), engines.end(), [](const PricedPtr& a, const PricedPtr& b) {
      return a->total_per_s() > b->total_per_s();
    });
    // What has an engine over unlike devices has to be much better than what has none: it is no bar
    // for that.
    std::vector<FoundDeployment> plain;
    std::copy_if(list.begin(), list.end(), std::back_inserter(plain),
                 [](const FoundDeployment& each) { return !has_unlike(each.parts); });
    double best_per_s = best_rate(list), best_plain_per_s = best_rate(plain);
    std::vector<std::size_t> plain_at;  // in the list, of those that are added
    std::int64_t tries = kBesideTries;
    for (const TypesTogether& each : sets_of(engines)) {
      const bool is_plain = !has_unlike(each.parts);
      const double bar_per_s = is_plain ? best_plain_per_s : best_per_s;
      if (tries == 0 || each.promise_per_s * kTogether <= bar_per_s) {
        ++search.bounded;
        continue;
      }
      --tries;
      auto found = together(search, search.shared_out(each.parts), each.promise_per_s, bar_per_s);
      if (!found) continue;
      best_per_s = std::max(best_per_s, found->rate_per_s());
      if (is_plain) {
        best_plain_per_s = found->rate_per_s();
        plain_at.push_back(list.size());
      }
      list.push_back(std::move(*found));
    }
    if (!plain_at.empty()) refine(search, plain_at, list);
  }

  /// Better shares for those that may stand first, and the best of them without one of its kinds.
  static void refine(ServingSearch& search, const std::vector<std::size_t>& plain_at,
                     std::vector<FoundDeployment>& list) {
    const auto by_rate = [&](std::size_t a, std::size_t b) {
      return list[a].rate_per_s() < list[b].rate_per_s();
    };
    const auto best = [&] { return *std::max_element(plain_at.begin(), plain_at.end(), by_rate); };
    const double bar_per_s = list[best()].rate_per_s() / kWorthIt;
    for (const std::size_t at : plain_at) {
      if (list[at].rate_per_s() >= bar_per_s) list[at] = shared_better(search, std::move(list[at]));
    }
    add_fewer_kinds(search, list[best()], list);
  }

  /// The same without one kind of engine, which may serve about as much.
  static void add_fewer_kinds(ServingSearch& search, FoundDeployment best,
                              std::vector<FoundDeployment>& list) {
    const double least_per_s = best.rate_per_s() / kWorthIt;
    for (std::size_t i = 0; best.parts.size() > 2 && i < best.parts.size(); ++i) {
      std::vector<DeploymentPart> parts = best.parts;
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
      const auto is_these = [&](const FoundDeployment& each) {
        return std::equal(each.parts.begin(), each.parts.end(), parts.begin(), parts.end(),
                          [](const DeploymentPart& one, const DeploymentPart& other) {
                            return one.engine == other.engine && one.count == other.count;
                          });
      };
      if (std::any_of(list.begin(), list.end(), is_these)) continue;
      auto found = together(search, parts, least_per_s, least_per_s);
      if (found) list.push_back(std::move(*found));
    }
  }

  static std::optional<FoundDeployment> together(ServingSearch& search,
                                                 const std::vector<DeploymentPart>& parts,
                                                 double guess_per_s, double least_per_s,
                                                 double tolerance = kKnownTo) {
    auto found = search.sustained(parts, {.guess_per_s = guess_per_s,
                                          .least_per_s = least_per_s,
                                          .residence_s = residence_of(parts),
                                          .num_engines = num_engines(parts),
                                          .tolerance = tolerance});
    if (!found) return std::nullopt;
    return FoundDeployment{parts, std::move(found)};
  }

  /// With more for the engines that have less than the others, as long as that serves more: alone a
  /// slow engine sustains less than beside others, which take what would be too much for it then.
  static FoundDeployment shared_better(ServingSearch& search, FoundDeployment best) {
    while (const auto parts = with_more_to_the_small(best.parts, kMoreToTheSmall)) {
      const double least_per_s = kBetterBy * best.rate_per_s();
      auto found = together(search, *parts, least_per_s, least_per_s, kKnownTo / 2);
      if (!found) break;
      best = std::move(*found);
    }
    return best;
  }

  /// Pools by the smallest set in their ratio, where they hold `least_per_s`.
  static std::optional<FoundDeployment> simulated(ServingSearch& search, const PoolPair& pools,
                                                  double guess_per_s, double least_per_s) {
    const std::int64_t times = pools.times();
    const std::vector<DeploymentPart> parts = pools.parts(times);
    const auto found =
        search.sustained(parts, {.guess_per_s = guess_per_s / static_cast<double>(times),
                                 .least_per_s = least_per_s / static_cast<double>(times),
                                 .residence_s = residence_of(search, pools),
                                 .num_engines = num_simulated(parts)});
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
