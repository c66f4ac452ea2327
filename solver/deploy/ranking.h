#pragma once

#include <vector>

#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/plan_serving.h"

namespace tessera::solver {

/// Puts what was found in the order of the objective, and simulates whole what becomes the first
/// and the first that shares engines; those that fail then are left out.
std::vector<FoundDeployment> ranked(ServingSearch& search, const DeploymentObjective& objective,
                                    std::vector<FoundDeployment> found);

/// Puts the first that shares engines in front where pools are ahead by no more than rates are
/// known to: that does not pay for a second pool, its link and its proxy. Says so; empty: pools
/// stay where they are.
std::string prefer_one_pool(std::vector<FoundDeployment>& found);

/// Rate per device of the first that shares engines over that of the first that does not.
std::optional<double> shared_over_pools(const std::vector<FoundDeployment>& found);

bool is_disaggregated(const FoundDeployment& found);

/// Of answers of one token, which have no TPOT, whole answers.
double tok_s_per_user(const serving::Summary& served);

}  // namespace tessera::solver
