// The fewest devices, or the least money, for a given rate.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/pool_pair.h"

namespace tessera::solver {
namespace {

// Pools that are simulated, for each type of device: those that miss the rate end soon.
constexpr std::int64_t kSetTries = 12;
// Engines beside each other sustain more than each alone does, by at most about this factor: tried
// before 1.
constexpr double kTogetherTries[] = {1.3, 1.15, 1};
constexpr double kProbeShare =
    0.5;  // of the requests, to see whether so many engines hold the rate

double as_double(std::int64_t value) { return static_cast<double>(value); }

class SmallestSet final : public DeploymentObjective {
 public:
  SmallestSet(double rate_per_s, bool by_price) : rate_per_s_(rate_per_s), by_price_(by_price) {}

  std::optional<double> wanted_per_s() const override { return rate_per_s_; }

  double cost(const Configuration& configuration, std::int64_t count) const override {
    if (!by_price_) return as_double(count * configuration.gpus());
    return configuration.usd_per_h(count).value_or(kUnpriced);
  }

  bool may_win(const PricedConfiguration& c, const PricedConfiguration& best) const override {
    const auto gpus = [&](const PricedConfiguration& each, double rate) {
      return as_double(each.gpus()) * std::ceil(rate_per_s_ / std::max(rate, 1e-12));
    };
    const double so_far = gpus(best, best.rate_per_s);
    return gpus(c, c.bounds.rate_per_s) < so_far && gpus(c, 1.25 * c.estimate_per_s) <= so_far;
  }

  double bar_per_s(const PricedConfiguration&, const PricedConfiguration&) const override {
    return 0;
  }

  std::vector<FoundDeployment> shared_phases(ServingSearch& search,
                                             const std::vector<BestOfType>& types) const override {
    std::vector<FoundDeployment> list;
    double bar = kUnpriced;
    for (const PricedPtr& engine : by_promise(types)) {
      auto result = fewest_or_alone(search, engine, bar);
      if (result) list.push_back(std::move(*result));
    }
    for (std::vector<PricedPtr>& engines : alike_engines(search, types)) {
      std::erase_if(engines, [](const PricedPtr& engine) { return engine->is_unlike(); });
      if (engines.size() < 2) continue;
      auto result = beside_each_other(search, engines, bar);
      if (result) list.push_back(std::move(*result));
    }
    return list;
  }

  /// The smallest that hold the rate, simulated whole.
  std::vector<FoundDeployment> pools(ServingSearch& search, const std::vector<BestOfType>& types,
                                     const std::vector<FoundDeployment>&) const override {
    std::vector<PoolPair> failed;
    std::int64_t tries = kSetTries * std::ssize(types);
    for (const PoolPair& pools : pools_in_order(search, types)) {
      if (tries == 0) break;
      if (!may_hold(pools, failed) || !search.place(pools.parts())) {
        ++search.bounded;
        continue;
      }
      --tries;
      const auto found =
          search.sustained(pools.parts(), at_rate(pools.parts(), residence_of(search, pools)));
      if (found) return {{pools.parts(), found}};
      failed.push_back(pools);
    }
    return {};
  }

 private:
  RateQuery at_rate(const std::vector<DeploymentPart>& parts, double residence_s) const {
    return {.guess_per_s = rate_per_s_,
            .least_per_s = rate_per_s_,
            .residence_s = residence_s,
            .num_engines = num_engines(parts)};
  }

  /// By what the wanted rate costs with them alone.
  std::vector<PricedPtr> by_promise(const std::vector<BestOfType>& types) const {
    std::vector<PricedPtr> engines;
    for (const BestOfType& type : types) {
      engines.insert(engines.end(), type.best.begin(), type.best.end());
    }
    const auto promise = [&](const PricedPtr& each) { return cost(*each, 1) / each->rate_per_s; };
    std::sort(engines.begin(), engines.end(), [&](const PricedPtr& a, const PricedPtr& b) {
      const double left = promise(a), right = promise(b);
      return left != right ? left < right : a->name() < b->name();
    });
    return engines;
  }

  /// Whether `count` engines hold the rate: one run at it.
  bool holds(ServingSearch& search, const PricedPtr& engine, std::int64_t count) const {
    const std::vector<DeploymentPart> parts = {{engine, count}};
    Refusal why_not;
    const auto deployment = search.deploy(parts, why_not);
    if (deployment == nullptr) return false;
    RateQuery query = at_rate(parts, engine->residence_s);
    query.num_engines = static_cast<std::int64_t>(std::ceil(as_double(count) * kProbeShare));
    query.max_runs = 1;
    return search.max_rate(*deployment, query).rate_per_s > 0;
  }

  /// The fewest engines from `low` to `high` that hold the rate, by bisection.
  std::optional<std::int64_t> fewest(ServingSearch& search, const PricedPtr& engine,
                                     std::int64_t low, std::int64_t high) const {
    if (!holds(search, engine, high)) return std::nullopt;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (holds(search, engine, middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  /// Equal engines: as few as their bound allows where that may cost less than `bar`, which falls
  /// to what they cost then; else as many as one of them alone says.
  std::optional<FoundDeployment> fewest_or_alone(ServingSearch& search, const PricedPtr& engine,
                                                 double& bar) const {
    const double each = cost(*engine, 1);
    double alone = std::ceil(rate_per_s_ / engine->rate_per_s);
    const double low =
        std::max(1.0, std::ceil(rate_per_s_ / (kFiniteRun * engine->bounds.rate_per_s)));
    const double high = std::min(
        {alone, as_double(engine->capacity), bar < kUnpriced ? std::floor(bar / each) : alone});
    if (each < kUnpriced && low <= high) {
      const auto count =
          fewest(search, engine, static_cast<std::int64_t>(low), static_cast<std::int64_t>(high));
      if (count) {
        const std::vector<DeploymentPart> parts = {{engine, *count}};
        const auto found = search.sustained(parts, at_rate(parts, engine->residence_s));
        if (found) {
          bar = std::min(bar, as_double(*count) * each);
          return FoundDeployment{parts, found};
        }
      }
      if (high == as_double(engine->capacity)) alone = kUnpriced;  // all of them missed it
    }
    if (alone <= as_double(engine->capacity)) {
      const auto count = static_cast<std::int64_t>(alone);
      return FoundDeployment{{{engine, count}}, engine->found, count, Scope::one_engine};
    }
    search.refuse(
        engine->name(), Cause::latency,
        fmt::format("{} sustain{} about {:.3g} req/s, {:.6g} are wanted",
                    engine->capacity > 1 ? fmt::format("{} engines", engine->capacity) : "1 engine",
                    engine->capacity > 1 ? "" : "s",
                    as_double(engine->capacity) * engine->rate_per_s, rate_per_s_));
    return std::nullopt;
  }

  /// Of the types together, the counts whose rates, `factor` times those of one engine alone, reach
  /// the rate for the least.
  struct Cheapest {
    const ServingSearch& search;
    const SmallestSet& objective;
    const std::vector<PricedPtr>& engines;
    double factor;
    double least = kUnpriced;
    std::vector<DeploymentPart> best = {};
    std::vector<std::int64_t> counts = {};
    std::int64_t calls = 0;

    void go(double rate_per_s, double spent) {
      if (spent >= least) return;
      if (++calls % 4096 == 0) search.poll();
      if (rate_per_s >= objective.rate_per_s_) {
        least = spent;
        best.clear();
        for (std::size_t k = 0; k < counts.size(); ++k) {
          if (counts[k] > 0) best.push_back({engines[k], counts[k]});
        }
        return;
      }
      if (counts.size() == engines.size()) return;
      const PricedConfiguration& engine = *engines[counts.size()];
      const double each = objective.cost(engine, 1);
      for (std::int64_t count = 0; count <= engine.capacity; ++count) {
        counts.push_back(count);
        go(rate_per_s + factor * as_double(count) * engine.rate_per_s,
           spent + (count > 0 ? as_double(count) * each : 0));
        counts.pop_back();
      }
    }
  };

  /// The best engines of every type beside each other, where that costs less than `bar`.
  std::optional<FoundDeployment> beside_each_other(ServingSearch& search,
                                                   const std::vector<PricedPtr>& engines,
                                                   double bar) const {
    for (const double factor : kTogetherTries) {
      Cheapest cheapest{search, *this, engines, factor};
      cheapest.go(0, 0);
      if (cheapest.best.size() < 2 || cheapest.least >= bar) continue;
      const std::vector<DeploymentPart> parts = search.shared_out(cheapest.best);
      const auto found = search.sustained(parts, at_rate(parts, residence_of(parts)));
      if (found) return FoundDeployment{parts, found};
    }
    return std::nullopt;
  }

  /// Counts from what the bounds want for the rate on, the smallest first.
  std::vector<PoolPair> pools_in_order(ServingSearch& search,
                                       const std::vector<BestOfType>& types) const {
    std::vector<PoolPair> list;
    for (const auto& [p, d] : joined_pools(search, types)) {
      const double first_x = std::ceil(rate_per_s_ / (kFiniteRun * p->bounds.prefill_rate_per_s));
      const double first_y = std::ceil(rate_per_s_ / (kFiniteRun * d->bounds.decode_rate_per_s));
      const double last_x = std::min(as_double(p->capacity), first_x + as_double(kMoreEngines));
      for (double x = first_x; x <= last_x; ++x) {
        const auto engines = static_cast<std::int64_t>(x);
        const double last_y =
            std::min(first_y + as_double(kMoreEngines), as_double(room_beside(*p, engines, *d)));
        for (double y = first_y; y <= last_y; ++y) {
          list.push_back(pool_pair(search, *this, p, engines, d, static_cast<std::int64_t>(y)));
        }
      }
    }
    std::sort(list.begin(), list.end(), [](const PoolPair& a, const PoolPair& b) {
      const auto left = std::pair(a.cost, -a.estimate_per_s);
      const auto right = std::pair(b.cost, -b.estimate_per_s);
      return left != right ? left < right : a.name() < b.name();
    });
    return list;
  }

  /// Whether pools may hold the rate: none with as many engines failed.
  bool may_hold(const PoolPair& pools, const std::vector<PoolPair>& failed) const {
    if (pools.cost == kUnpriced || pools.estimate_per_s < 0.7 * rate_per_s_) return false;
    return std::none_of(failed.begin(), failed.end(), [&](const PoolPair& other) {
      return other.prefill == pools.prefill && other.decode == pools.decode && pools.x <= other.x &&
             pools.y <= other.y;
    });
  }

  double rate_per_s_;
  bool by_price_;
};

}  // namespace

std::unique_ptr<DeploymentObjective> smallest_set(double rate_per_s, bool by_price) {
  return std::make_unique<SmallestSet>(rate_per_s, by_price);
}

}  // namespace tessera::solver
