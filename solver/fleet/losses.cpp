#include "losses.h"

#include <algorithm>
#include <cstddef>

namespace tessera::solver {

std::int64_t num_losses(const std::vector<std::int64_t>& most, std::int64_t nodes,
                        std::int64_t enough) {
  std::int64_t all = 0;
  for (const std::int64_t each : most) all = std::min(nodes, all + std::min(nodes, each));
  std::vector<std::int64_t> ways(static_cast<std::size_t>(all) + 1, 0);  // [nodes lost so far]
  ways[0] = 1;
  for (const std::int64_t each : most) {
    if (ways.back() > enough) break;
    for (std::size_t lost = ways.size(); lost-- > 0;) {
      for (std::size_t of_group = 1; of_group <= lost && ways[lost] <= enough; ++of_group) {
        if (static_cast<std::int64_t>(of_group) > each) break;
        ways[lost] = std::min(enough + 1, ways[lost] + ways[lost - of_group]);
      }
    }
  }
  return ways.back();
}

void for_each_loss(const std::vector<std::int64_t>& most, std::int64_t nodes,
                   const std::function<void(const std::vector<std::int64_t>& lost)>& visit) {
  std::vector<std::int64_t> room(most.size() + 1, 0);  // of the groups from one on
  for (std::size_t i = most.size(); i-- > 0;) {
    room[i] = std::min(nodes, room[i + 1] + std::min(nodes, most[i]));
  }
  std::vector<std::int64_t> lost(most.size(), 0);
  const std::function<void(std::size_t, std::int64_t)> choose = [&](std::size_t i,
                                                                    std::int64_t left) {
    if (i == most.size()) return visit(lost);
    const std::int64_t least = std::max<std::int64_t>(0, left - room[i + 1]);
    for (std::int64_t n = least; n <= std::min(left, most[i]); ++n) {
      lost[i] = n;
      choose(i + 1, left - n);
    }
    lost[i] = 0;
  };
  choose(0, room.front());
}

}  // namespace tessera::solver
