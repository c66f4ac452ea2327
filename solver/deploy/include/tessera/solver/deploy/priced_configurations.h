#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/solver/deploy/serving_search.h"

namespace tessera::solver {

/// The configurations of a type of device that the request allows and the runtime can run, with
/// bounds and estimates: of each degree, bitwidth and KV cache as few stages as hold the model, or
/// those that were asked for. Nothing is simulated. What is ruled out goes to the search's
/// refusals; what no prompt or token alone is fast enough on is here all the same, for pools of the
/// other role.
std::vector<std::shared_ptr<PricedConfiguration>> priced_configurations(
    ServingSearch& search, const std::shared_ptr<const TypeDevices>& type);

/// The same of engines over devices of several types, where the request wants them: pipelines over
/// all groups of a degree of two of the types, or of all of them, in the order of the cluster, or
/// cut into equal ones, whose layers are split to balance the time of the stages; and single groups
/// of unlike devices, where no type has as many on a node.
std::vector<std::shared_ptr<PricedConfiguration>> unlike_configurations(ServingSearch& search);

/// The configuration as an engine of a pool of prefill or decode engines, with the seats that suit
/// that.
PricedPtr in_pool(const ServingSearch& search, const PricedConfiguration& configuration,
                  serving::Role role);

/// The configuration with fewer tokens of a step; null where that is settled or they are few. Pools
/// keep as many as people's servers have, since their decodes wait for no prompt.
std::shared_ptr<PricedConfiguration> with_fewer_tokens(const ServingSearch& search,
                                                       const PricedConfiguration& configuration,
                                                       serving::Role role);

/// Simulates one engine alone and sets the rate that it sustains; 0 where that misses
/// `least_per_s`. Returns what limits it.
Refusal simulate_alone(ServingSearch& search,
                       const std::shared_ptr<PricedConfiguration>& configuration,
                       double least_per_s = 0);

/// What was simulated, or where it holds no rate, with as few tokens of a step as hold one.
std::shared_ptr<PricedConfiguration> holding(ServingSearch& search,
                                             std::shared_ptr<PricedConfiguration> configuration);

/// The configuration with fewer tokens of a step where that is worth it: what is below any server's
/// usual number has to be. @param bar_per_s what it has to sustain as well
std::shared_ptr<PricedConfiguration> tuned(ServingSearch& search,
                                           std::shared_ptr<PricedConfiguration> configuration,
                                           double bar_per_s = 0);

}  // namespace tessera::solver
