// The graph of the orders that a server can launch.

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "graph.h"
#include "tessera/solver/instance/stage_rule.h"

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

class RuledOrders {
 public:
  /// States in topological order: a stage more on the node, or one node more, compares greater.
  struct State {
    StageOrder::State at;
    std::vector<std::uint16_t> used;  ///< [group] of the node at hand; 0 elsewhere
    std::size_t last = 0;             ///< group

    friend std::strong_ordering operator<=>(const State&, const State&) = default;
  };

  explicit RuledOrders(const SearchSpace& space) : space_(space), rule_(space.instance()) {
    for (std::size_t g = 0; g < num_groups(); ++g) {
      if (rule_.node_of(g) == groups_.size()) groups_.emplace_back();
      groups_[rule_.node_of(g)].push_back(g);
    }
    for (std::size_t node = 0; node < groups_.size(); ++node) {
      twin_.push_back(kNone);
      for (std::size_t before = 0; before < node; ++before) {
        if (are_alike(before, node)) twin_.back() = before;
      }
    }
  }

  State start() const { return {{}, std::vector<std::uint16_t>(num_groups(), 0), 0}; }

  /// Absent where a device of the group cannot be the next stage.
  std::optional<State> after(const State& state, std::size_t group) const {
    if (state.used[group] == groups()[group].count) return std::nullopt;
    auto at = rule_.after(state.at, group);
    if (!at) return std::nullopt;
    const bool enters = at->num_nodes != state.at.num_nodes;
    if (enters && !may_enter(state, rule_.node_of(group))) return std::nullopt;
    State next{*std::move(at), state.used, group};
    if (enters) std::fill(next.used.begin(), next.used.end(), std::uint16_t{0});
    ++next.used[group];
    return next;
  }

  bool may_end(const State& state, bool first) const {
    if (!rule_.may_end(state.at)) return false;
    if (may_leave_out()) return !first || space_.least_stages() == 1;
    return state.at.num_nodes == groups_.size() && is_full(state);
  }

 private:
  const std::vector<DeviceGroup>& groups() const { return space_.instance().groups; }
  std::size_t num_groups() const { return groups().size(); }
  bool may_leave_out() const { return space_.instance().allow_empty_stage; }

  bool is_full(const State& state) const {
    const auto& here = groups_[state.at.node];
    return std::all_of(here.begin(), here.end(),
                       [&](std::size_t g) { return state.used[g] == groups()[g].count; });
  }

  bool may_enter(const State& state, std::size_t node) const {
    const bool first = state.at.num_nodes == 0;
    if (twin_[node] != kNone && (first || state.at.begun[twin_[node]] == 0)) return false;
    return first || may_leave_out() || is_full(state);
  }

  /// Whether nothing changes when two nodes trade places.
  bool are_alike(std::size_t a, std::size_t b) const {
    if (groups_[a].size() != groups_[b].size()) return false;
    std::vector<std::size_t> traded(num_groups());
    for (std::size_t g = 0; g < traded.size(); ++g) traded[g] = g;
    for (std::size_t i = 0; i < groups_[a].size(); ++i) {
      const std::size_t g = groups_[a][i], h = groups_[b][i];
      if (space_.kind_of(g) != space_.kind_of(h) || groups()[g].count != groups()[h].count) {
        return false;
      }
      std::swap(traded[g], traded[h]);
    }
    return std::all_of(space_.pairs().begin(), space_.pairs().end(), [&](const Pair& pair) {
      for (std::size_t from = 0; from < traded.size(); ++from) {
        for (std::size_t to = 0; to < traded.size(); ++to) {
          for (const bool decode : {false, true}) {
            if (pair.link_s(decode, from, to, num_groups()) !=
                pair.link_s(decode, traded[from], traded[to], num_groups())) {
              return false;
            }
          }
        }
      }
      return true;
    });
  }

  const SearchSpace& space_;
  StageOrder rule_;
  std::vector<std::vector<std::size_t>> groups_;  ///< [node]
  std::vector<std::size_t> twin_;                 ///< [node] the last one before that is alike
};

}  // namespace

std::optional<Graph> Graph::ruled(const SearchSpace& space, std::size_t max_states) {
  const RuledOrders orders(space);
  const std::size_t groups = space.instance().groups.size();
  std::map<RuledOrders::State, std::size_t> index{{orders.start(), 0}};
  for (auto it = index.begin(); it != index.end(); ++it) {
    for (std::size_t g = 0; g < groups; ++g) {
      if (auto next = orders.after(it->first, g)) index.try_emplace(*std::move(next), 0);
    }
    if (index.size() > max_states) return std::nullopt;
  }
  std::size_t count = 0;
  for (auto& [state, number] : index) number = count++;
  Graph graph;
  for (const auto& [state, number] : index) {
    graph.last_group_.push_back(static_cast<std::uint16_t>(state.last));
    const bool first = number == 0;
    for (std::size_t g = 0; g < groups; ++g) {
      const auto next = orders.after(state, g);
      if (!next) continue;
      const auto add = [&](std::size_t to, StagePlace place) {
        graph.transitions_.push_back({static_cast<std::uint32_t>(to),
                                      static_cast<std::uint16_t>(space.kind_of(g)),
                                      static_cast<std::uint16_t>(g), place, false});
      };
      add(index.at(*next), stage_place(first, false));
      if (orders.may_end(*next, first)) add(0, stage_place(first, true));
    }
    graph.close_state();
  }
  return graph;
}

}  // namespace tessera::solver::exact
