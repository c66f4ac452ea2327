#include "tessera/solver/deploy/pool_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/solver/deploy/priced_configurations.h"
#include "tessera/solver/deploy/runtime_rules.h"

namespace tessera::solver {
namespace {

using serving::Role;

const double kLog100 = std::log(100);

constexpr double kPoolShare = 0.5;  // of the requests are simulated

/// Share of a prefill pool's bound at which 99 % of prompts keep to the limit on TTFT: of one queue
/// with Poisson arrivals and equal service times s on x engines the wait's tail is about
/// exp(-2 x (1 - share) wait / s).
double prefill_share(const ServingSearch& search, const EngineBounds& bounds, std::int64_t count) {
  const double slack_s = search.ttft_limit_s() - bounds.ttft_s;
  return std::max(0.1, 1 - kLog100 / (2 * static_cast<double>(count) * bounds.prefill_rate_per_s *
                                      std::max(slack_s, 1e-9)));
}

/// Share of a decode pool's bound: of batches that vary by chance the 99th percentile has to fit,
/// half of it seen by a request on its average step.
double decode_share(const EngineBounds& bounds, std::int64_t count) {
  return std::max(0.3,
                  1 - kLog100 / (4 * std::sqrt(static_cast<double>(count * bounds.decode_batch))));
}

}  // namespace

std::int64_t PoolPair::times() const { return std::gcd(x, y); }

std::vector<DeploymentPart> PoolPair::parts(std::int64_t divisor) const {
  return {{prefill, x / divisor, Role::prefill}, {decode, y / divisor, Role::decode}};
}

std::string PoolPair::name() const {
  return fmt::format("{} x {} + {} x {}", x, prefill->name(), y, decode->name());
}

PoolPair pool_pair(const ServingSearch& search, const DeploymentObjective& objective,
                   const PricedPtr& prefill, std::int64_t x, const PricedPtr& decode,
                   std::int64_t y) {
  const double read = static_cast<double>(x) * prefill->bounds.prefill_rate_per_s;
  const double written = static_cast<double>(y) * decode->bounds.decode_rate_per_s;
  PoolPair pools{prefill, decode, x, y};
  pools.bound_per_s = std::min(read, written);
  pools.estimate_per_s = std::min(read * prefill_share(search, prefill->bounds, x),
                                  written * decode_share(decode->bounds, y));
  pools.cost = objective.cost(*prefill, x) + objective.cost(*decode, y);
  return pools;
}

std::int64_t room_beside(const Configuration& prefill, std::int64_t x,
                         const PricedConfiguration& decode) {
  if (prefill.type != decode.type) return decode.capacity;
  const std::int64_t left = prefill.type->count - x * prefill.gpus();
  return std::min(decode.capacity, left / decode.gpus());
}

std::int64_t num_simulated(const std::vector<DeploymentPart>& parts) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(num_engines(parts)) * kPoolShare));
}

double residence_of(const ServingSearch& search, const PoolPair& pools) {
  return pools.prefill->bounds.ttft_s +
         search.lengths().output_tokens * pools.decode->bounds.decode_step_s;
}

std::vector<JoinedPools> joined_pools(const ServingSearch& search,
                                      const std::vector<BestOfType>& types) {
  std::vector<PricedPtr> prefill, decode;
  for (const BestOfType& type : types) {
    for (const PricedPtr& each : type.all) {
      if (each->may_prefill) prefill.push_back(in_pool(search, *each, Role::prefill));
      if (!each->may_decode) continue;
      decode.push_back(in_pool(search, *each, Role::decode));
      if (decode.back()->bounds.decode_rate_per_s <= 0) decode.pop_back();
    }
  }
  std::vector<JoinedPools> joined;
  for (const PricedPtr& p : prefill) {
    for (const PricedPtr& d : decode) {
      const std::string obstacle =
          transfer_obstacle(search.request().runtime, {*p, p->checkpoint}, {*d, d->checkpoint});
      if (obstacle.empty()) joined.push_back({p, d});
    }
  }
  return joined;
}

std::vector<PoolPair> pairs_in_balance(const ServingSearch& search,
                                       const DeploymentObjective& objective,
                                       const JoinedPools& pools) {
  const auto& [prefill, decode] = pools;
  std::vector<PoolPair> pairs;
  for (std::int64_t x = 1; x <= prefill->capacity; ++x) {
    const double balance = std::floor(static_cast<double>(x) * prefill->bounds.prefill_rate_per_s /
                                      decode->bounds.decode_rate_per_s);
    const auto room = static_cast<double>(room_beside(*prefill, x, *decode));
    const auto last =
        static_cast<std::int64_t>(std::min(balance + static_cast<double>(kMoreEngines), room));
    auto y = static_cast<std::int64_t>(std::max(1.0, std::min(balance, room)));
    for (; y <= last; ++y) pairs.push_back(pool_pair(search, objective, prefill, x, decode, y));
  }
  return pairs;
}

}  // namespace tessera::solver
