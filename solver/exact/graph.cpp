#include "graph.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver::exact {
namespace {

Transition transition(std::size_t to, std::size_t kind, std::size_t group, StagePlace place,
                      bool may_be_empty) {
  return {static_cast<std::uint32_t>(to), static_cast<std::uint16_t>(kind),
          static_cast<std::uint16_t>(group), place, may_be_empty};
}

std::size_t devices_in(const std::vector<std::size_t>& used) {
  std::size_t sum = 0;
  for (const std::size_t u : used) sum += u;
  return sum;
}

}  // namespace

Graph Graph::chain(const SearchSpace& space, const std::vector<std::size_t>& order) {
  Graph graph;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::size_t kind = space.kind_of(order[k]);
    const bool last = k + 1 == order.size();
    const StagePlace place = place_at(k, order.size());
    const bool may_be_empty = space.instance().may_be_empty() && place == StagePlace::middle;
    graph.transitions_.push_back(transition(last ? 0 : k + 1, kind, order[k], place, may_be_empty));
    graph.close_state();
  }
  return graph;
}

Graph Graph::counts(const SearchSpace& space) {
  Graph graph;
  const auto& kinds = space.kinds();
  const bool subsets = space.instance().allow_empty_stage;
  const std::size_t devices = space.num_positions();
  const std::size_t least = space.least_stages();
  std::vector<std::size_t> stride, used(kinds.size(), 0), most;
  std::size_t states = 1;
  for (const DeviceKind& kind : kinds) {
    stride.push_back(states);
    most.push_back(static_cast<std::size_t>(kind.count));
    states *= most.back() + 1;
  }
  for (std::size_t s = 0; s < states; ++s) {
    const std::size_t done = devices_in(used);
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      if (used[k] == most[k]) continue;
      const bool first = s == 0;
      const std::size_t group = kinds[k].group;
      if (done + 1 < devices) {
        graph.transitions_.push_back(
            transition(s + stride[k], k, group, stage_place(first, false), false));
      }
      if (done + 1 == devices || (subsets && done + 1 >= least)) {
        graph.transitions_.push_back(transition(0, k, group, stage_place(first, true), false));
      }
    }
    graph.close_state();
    for (std::size_t k = 0; k < kinds.size() && ++used[k] > most[k]; ++k) used[k] = 0;
  }
  return graph;
}

Graph Graph::linked(const SearchSpace& space) {
  Graph graph;
  const auto& groups = space.instance().groups;
  const bool subsets = space.instance().allow_empty_stage;
  const std::size_t devices = space.num_positions(), n = groups.size();
  const std::size_t least = space.least_stages();
  std::vector<std::size_t> stride, used(n, 0), most;
  std::size_t codes = 1;
  for (const DeviceGroup& group : groups) {
    stride.push_back(codes);
    most.push_back(static_cast<std::size_t>(group.count));
    codes *= most.back() + 1;
  }
  for (std::size_t code = 0; code < codes; ++code) {
    const std::size_t done = devices_in(used);
    for (std::size_t last = 0; last < n; ++last) {
      graph.last_group_.push_back(static_cast<std::uint16_t>(last));
      // Code 0 has no last group; its row of states has one member.
      const bool exists = code == 0 ? last == 0 : used[last] > 0;
      for (std::size_t g = 0; exists && g < n; ++g) {
        if (used[g] == most[g]) continue;
        const bool first = code == 0;
        const std::size_t kind = space.kind_of(g);
        if (done + 1 < devices) {
          graph.transitions_.push_back(transition((code + stride[g]) * n + g, kind, g,
                                                  stage_place(first, false),
                                                  !first && space.instance().may_be_empty()));
        }
        if (done + 1 == devices || (subsets && done + 1 >= least)) {
          graph.transitions_.push_back(transition(0, kind, g, stage_place(first, true), false));
        }
      }
      graph.close_state();
    }
    for (std::size_t g = 0; g < n && ++used[g] > most[g]; ++g) used[g] = 0;
  }
  return graph;
}

// State: which groups are finished or begun (bit mask), the group begun last, its devices used.
Graph Graph::blocks(const SearchSpace& space) {
  Graph graph;
  const auto& groups = space.instance().groups;
  const bool subsets = space.instance().allow_empty_stage;
  const bool singles = space.least_stages() == 1;
  const std::size_t n = groups.size();
  std::size_t most = 1;
  for (const DeviceGroup& group : groups) {
    most = std::max(most, static_cast<std::size_t>(group.count));
  }
  const auto state_of = [&](std::size_t mask, std::size_t last, std::size_t used) {
    return (mask * n + last) * most + (used - 1) + 1;  // 0 is the empty pipeline
  };
  const std::size_t states = (std::size_t{1} << n) * n * most + 1;
  const auto add = [&](std::size_t mask, std::size_t g, std::size_t used, bool first) {
    const std::size_t kind = space.kind_of(g), after = mask | (std::size_t{1} << g);
    const bool full =
        after + 1 == std::size_t{1} << n && used == static_cast<std::size_t>(groups[g].count);
    if (!full) {
      graph.transitions_.push_back(transition(state_of(after, g, used), kind, g,
                                              stage_place(first, false),
                                              !first && space.instance().may_be_empty()));
    }
    if (full || (subsets && (!first || singles))) {
      graph.transitions_.push_back(transition(0, kind, g, stage_place(first, true), false));
    }
  };
  for (std::size_t s = 0; s < states; ++s) {
    const std::size_t code = s == 0 ? 0 : s - 1;
    const std::size_t used = code % most + 1, last = code / most % n, mask = code / most / n;
    graph.last_group_.push_back(static_cast<std::uint16_t>(last));
    const bool in_mask = (mask >> last & 1) != 0;
    const auto count = static_cast<std::size_t>(groups[last].count);
    if (s == 0) {
      for (std::size_t g = 0; g < n; ++g) add(0, g, 1, true);
    } else if (in_mask && used <= count) {
      if (used < count) add(mask, last, used + 1, false);
      for (std::size_t g = 0; g < n && (subsets || used == count); ++g) {
        if ((mask >> g & 1) == 0) add(mask, g, 1, false);
      }
    }
    graph.close_state();
  }
  return graph;
}

double Graph::num_count_states(const SearchSpace& space) {
  double states = 1;
  for (const DeviceKind& kind : space.kinds()) states *= kind.count + 1;
  return states;
}

double Graph::num_linked_states(const SearchSpace& space) {
  double states = static_cast<double>(space.instance().groups.size());
  for (const DeviceGroup& group : space.instance().groups) states *= group.count + 1;
  return states;
}

double Graph::num_block_states(const SearchSpace& space) {
  double most = 1, groups = static_cast<double>(space.instance().groups.size());
  for (const DeviceGroup& group : space.instance().groups) {
    most = std::max(most, static_cast<double>(group.count));
  }
  return std::exp2(groups) * groups * most + 1;
}

}  // namespace tessera::solver::exact
