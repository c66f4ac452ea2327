#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/serving_search.h"

namespace tessera::solver {

/// Pools of `x` prefill engines and `y` decode engines.
struct PoolPair {
  PricedPtr prefill, decode;
  std::int64_t x = 1, y = 1;
  /// Prefill engines complete no more than their steps of prompts alone do, decode engines no more
  /// than their largest batch within the limit on TPOT, both no more than the lesser.
  double bound_per_s = 0;
  double estimate_per_s = 0;  ///< the same less what chance takes off
  double cost = 0;            ///< as the objective counts

  std::int64_t times() const;  ///< the smallest set in their ratio makes the whole so many times
  /// What a `divisor`-th of them is.
  std::vector<DeploymentPart> parts(std::int64_t divisor = 1) const;
  std::string name() const;
};
PoolPair pool_pair(const ServingSearch& search, const DeploymentObjective& objective,
                   const PricedPtr& prefill, std::int64_t x, const PricedPtr& decode,
                   std::int64_t y);

/// How long a request is foreseen to stay.
double residence_of(const ServingSearch& search, const PoolPair& pools);

/// Decode engines that there is room for beside `x` prefill engines, by their number of devices.
std::int64_t room_beside(const Configuration& prefill, std::int64_t x,
                         const PricedConfiguration& decode);

/// Engines more than the bounds want in a pool, that are looked at.
inline constexpr std::int64_t kMoreEngines = 2;

/// Engines that are simulated of pools with these parts, in which requests queue for each engine.
std::int64_t num_simulated(const std::vector<DeploymentPart>& parts);

/// Configurations for each role with the limits that suit it, of those that the runtime joins.
struct JoinedPools {
  PricedPtr prefill, decode;
};
std::vector<JoinedPools> joined_pools(const ServingSearch& search,
                                      const std::vector<BestOfType>& types);

/// Counts about the balance of the bounds: for each number of prefill engines as many decode
/// engines as write what those read, and up to kMoreEngines more, or all that there is room for.
std::vector<PoolPair> pairs_in_balance(const ServingSearch& search,
                                       const DeploymentObjective& objective,
                                       const JoinedPools& pools);

}  // namespace tessera::solver
