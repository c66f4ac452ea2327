#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::solver {

/// Ways to lose so many nodes, or all where there are fewer, of groups of nodes that are lost
/// alike: how many of each group, of groups that have `most` each. Counted up to `enough` and one.
std::int64_t num_losses(const std::vector<std::int64_t>& most, std::int64_t nodes,
                        std::int64_t enough);
void for_each_loss(const std::vector<std::int64_t>& most, std::int64_t nodes,
                   const std::function<void(const std::vector<std::int64_t>& lost)>& visit);

}  // namespace tessera::solver
