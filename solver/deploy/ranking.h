#pragma once

#include <vector>

#include "tessera/solver/deploy/objective.h"
#include "tessera/solver/deploy/plan_serving.h"

namespace tessera::solver {

/// Puts what was found in the order of the objective, and simulates whole what becomes the first
/// and the first without pools or unlike devices in one engine; those that fail then are left out.
std::vector<FoundDeployment> ranked(ServingSearch& search, const DeploymentObjective& objective,
                                    std::vector<FoundDeployment> found);

/// Puts the simplest in front of those that are about as good as the best: what gains less than
/// 10 % is not worth another kind of engine, another type of device, more devices, wider groups or
/// fewer bits, and pools of prefill and decode engines, with their link and their proxy, or
/// engines over unlike devices are worth it from 30 % more than the same devices serve without.
/// What it puts in front was simulated whole. Says what is given up; empty: the first stays.
///
/// What that promises: the first is within 10 % of the best of what may stand first, and within
/// 30 % of the best that is listed. Another device takes nothing out of the comparison, so that the
/// first then is within 10 % of the first before, as far as the search finds as much again. Under a
/// looser limit what is plain may come within 30 % of pools that stood first and take their place:
/// that costs less than these 30 %, and the line says so (tests/lua/served_rates_spec.lua).
std::string prefer_simple(ServingSearch& search, const DeploymentObjective& objective,
                          std::vector<FoundDeployment>& found);

/// The first where it is on devices of one type, else the best on one that may stand first; absent:
/// nothing is on one.
std::optional<FoundDeployment> best_homogeneous(const ServingSearch& search,
                                                const std::vector<FoundDeployment>& found);
/// What counts for the goal of the one over that of the other, the more the better.
double gain_over(ServingGoal goal, const FoundDeployment& found, const FoundDeployment& other);

/// Rate per device of the first that shares engines over that of the first that does not.
std::optional<double> shared_over_pools(const std::vector<FoundDeployment>& found);

bool is_disaggregated(const FoundDeployment& found);

/// Of answers of one token, which have no TPOT, whole answers.
double tok_s_per_user(const serving::Summary& served);

}  // namespace tessera::solver
