#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/solver/deploy/pool_pair.h"
#include "tessera/solver/fleet_pricing/columns.h"

/// Prefill and decode engines on the devices of one node as a kind of replica.
namespace tessera::solver {

/// Pools that there is room for: of each number of devices of each type the ones that are estimated
/// to sustain the most, about the balance of their bounds.
std::vector<PoolPair> pairs_of(const ServingSearch& search, const std::vector<BestOfType>& types);

/// What no run of the pair passes: the lesser of what its prefill engines read at most in steps of
/// prompts alone, and its decode engines write in steps of decodes alone within the limit on TPOT,
/// by the linear programmes of mixed_rate_per_s.
double bound_of(const ServingSearch& search, const PoolPair& pair, double tpot_limit_s);

/// Finds what the pair sustains, with fewer tokens of a prefill step where that is worth it.
/// `served` is the class of requests whose rate is set.
void simulate_pair(ServingSearch& search, EnginePair& pair, ServedClass& served);

}  // namespace tessera::solver
