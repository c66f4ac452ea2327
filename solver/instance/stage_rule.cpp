#include "tessera/solver/instance/stage_rule.h"

#include <algorithm>

namespace tessera::solver {

StageOrder::StageOrder(const Instance& instance) : rule_(instance.stage_rule) {
  const auto& groups = instance.groups;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::size_t known = 0;
    while (known < g && groups[known].node != groups[g].node) ++known;
    node_of_.push_back(known < g ? node_of_[known] : num_nodes_++);
    sharding_.push_back(groups[g].sharding);
    is_alone_.push_back(rule_ == StageRule::one_node && groups[g].shares_layers ? 1 : 0);
  }
}

bool StageOrder::binds() const {
  if (rule_ == StageRule::any) return false;
  return num_nodes_ > 1 || std::count(is_alone_.begin(), is_alone_.end(), 1) > 0 ||
         std::any_of(sharding_.begin(), sharding_.end(),
                     [&](std::size_t s) { return s != sharding_.front(); });
}

std::optional<StageOrder::State> StageOrder::after(State state, std::size_t group) const {
  if (rule_ == StageRule::any) return state;
  const std::size_t node = node_of_[group];
  if (state.num_nodes == 0) {
    state.begun.assign(num_nodes_, 0);
    state.sharding = sharding_[group];
  } else if (sharding_[group] != state.sharding || is_alone_[group] != 0) {
    return std::nullopt;
  } else if (node == state.node) {
    ++state.used;
    return state;
  } else if (rule_ == StageRule::one_node || state.begun[node] != 0 || !may_end(state)) {
    return std::nullopt;
  }
  state.least = state.num_nodes > 1 ? state.used : 0;
  ++state.num_nodes;
  state.begun[node] = 1;
  state.node = node;
  state.used = 1;
  return state;
}

std::optional<std::size_t> StageOrder::breach(const std::vector<std::size_t>& order) const {
  State state;
  for (std::size_t k = 0; k < order.size(); ++k) {
    auto next = after(std::move(state), order[k]);
    if (!next) return k;
    state = *std::move(next);
  }
  if (may_end(state)) return std::nullopt;
  return order.size() - 1;
}

}  // namespace tessera::solver
