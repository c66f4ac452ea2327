#pragma once

#include <vector>

namespace tessera::solver::replan_detail {

/// Column of each row so that the sum of gains is largest, -1 for rows left over where there are
/// fewer columns; every gain >= 0. Kuhn's Hungarian method, O(n^3).
std::vector<int> best_assignment(const std::vector<std::vector<double>>& gain);

}  // namespace tessera::solver::replan_detail
