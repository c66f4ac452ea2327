#include "path_search.h"

#include <algorithm>

#include "kernels.h"

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kMostWindows = 200000;

// An interval of layers done; empty when first >= end.
struct Reach {
  std::size_t first = static_cast<std::size_t>(-1), end = 0;
  void include(std::size_t low, std::size_t high) {
    first = std::min(first, low);
    end = std::max(end, high + 1);
  }
};

}  // namespace

Path price_path(const SearchSpace& space, const Pair& pair, std::vector<PathStage> stages,
                bool true_groups) {
  Path path;
  const std::size_t groups = space.instance().groups.size();
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const PathStage& stage = stages[k];
    path.prefill_max_s = std::max(path.prefill_max_s, stage.prefill_s);
    path.decode_max_s = std::max(path.decode_max_s, stage.decode_s);
    path.prefill_sum_s += stage.prefill_s;
    path.decode_sum_s += stage.decode_s;
    path.omega += stage.omega;
    if (k == 0) continue;
    const std::size_t from = stages[k - 1].group, to = stage.group;
    const auto link = [&](bool decode, double slowest) {
      return true_groups ? pair.link_s(decode, from, to, groups) : slowest;
    };
    path.prefill_max_s = std::max(path.prefill_max_s, link(false, pair.slowest_prefill_link_s));
    path.decode_max_s = std::max(path.decode_max_s, link(true, pair.slowest_decode_link_s));
  }
  const ObjectiveCoefficients& c = pair.coefficients;
  path.objective =
      c.prefill_max * path.prefill_max_s + c.prefill_sum * path.prefill_sum_s +
      c.decode_max * path.decode_max_s + c.decode_sum * path.decode_sum_s +
      c.round * std::max(c.round_micro_batches * path.decode_max_s, path.decode_sum_s) +
      space.instance().theta * path.omega;
  path.meets_floor = path.omega <= space.omega_limit();
  path.stages = std::move(stages);
  return path;
}

Usage usage_of(const SearchSpace& space, const Path& path) {
  Usage usage(space.kinds().size());
  for (const PathStage& stage : path.stages) {
    usage.prefill[stage.kind] += stage.prefill_s;
    usage.decode[stage.kind] += stage.decode_s;
  }
  usage.decode_sum = path.decode_sum_s;
  usage.omega = path.omega;
  return usage;
}

void ArcTable::reset(std::size_t kinds, std::size_t layers, std::size_t max_length) {
  layers_ = layers;
  max_length_ = max_length;
  middle_.assign(kinds * (max_length + 1) * (layers + 1), kInfinity);
  first_.assign(kinds * (max_length + 1), kInfinity);
  last_.assign(kinds * (layers + 1), kInfinity);
  only_.assign(kinds, kInfinity);
}

bool PathSearch::forbidden(const Task& task, std::size_t state,
                           const Transition& transition) const {
  if (!task.graph->knows_links() || state == 0) return false;
  const std::size_t groups = space_.instance().groups.size();
  const std::size_t from = task.graph->last_group(state);
  return task.pair->link_s(false, from, transition.group, groups) > task.box.prefill_high ||
         task.pair->link_s(true, from, transition.group, groups) > task.box.decode_high;
}

double PathSearch::find(const Task& task, const Weights& weights) {
  task_ = task;
  weights_ = weights;
  layers_ = space_.num_layers();
  max_length_ = table_.max_length();
  price_arcs();
  find_windows();
  search_backward();
  return to_end_[0];
}

void PathSearch::price_arcs() {
  const std::size_t kinds = space_.kinds().size();
  arcs_.reset(kinds, layers_, max_length_);
  for (const StagePlace place : kStagePlaces) {
    shortest_[place].assign(kinds, layers_ + 1);
    longest_[place].assign(kinds, 0);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      for (const Option& option : task_.options->at[place][kind]) {
        const auto& shape = table_.shapes()[table_.shape_of(option.config)];
        shortest_[place][kind] = std::min(shortest_[place][kind], shape.length);
        longest_[place][kind] = std::max(longest_[place][kind], shape.length);
        const double base =
            weights_.prefill[kind] * option.prefill_s + weights_.decode[kind] * option.decode_s;
        arcs_.lower(place, kind, shape, option, table_.omega(option.config), base, weights_.omega);
      }
    }
  }
}

// Which numbers of layers a state can have, by the lengths of stages alone.
void PathSearch::find_windows() {
  const std::size_t states = task_.graph->num_states();
  first_.assign(states, 0);
  end_.assign(states, 0);
  reach_forward();
  reach_backward();
  if (task_.options->first_node.empty()) return;
  for (std::size_t s = 0; s < states; ++s) {
    first_[s] = std::max(first_[s], task_.options->first_node[s]);
    end_[s] = std::min(end_[s], task_.options->end_node[s]);
  }
}

void PathSearch::reach_forward() {
  const std::size_t states = task_.graph->num_states();
  std::vector<Reach> reach(states);
  reach[0].include(0, 0);
  for (std::size_t s = 0; s < states; ++s) {
    if (reach[s].end == 0) continue;
    first_[s] = static_cast<std::uint16_t>(reach[s].first);
    end_[s] = static_cast<std::uint16_t>(std::min(reach[s].end, layers_ + 1));
    for (const Transition* t = task_.graph->begin(s); t != task_.graph->end(s); ++t) {
      if (is_last(t->place) || forbidden(task_, s, *t)) continue;
      std::size_t low = shortest_[t->place][t->kind], high = longest_[t->place][t->kind];
      if (may_be_empty(task_, *t)) low = 0;
      if (low > high || reach[s].first + low > layers_) continue;
      reach[t->to].include(reach[s].first + low, reach[s].end - 1 + high);
    }
  }
}

void PathSearch::reach_backward() {
  std::vector<Reach> reach(task_.graph->num_states());
  for (std::size_t s = reach.size(); s-- > 0;) {
    for (const Transition* t = task_.graph->begin(s); t != task_.graph->end(s); ++t) {
      if (forbidden(task_, s, *t)) continue;
      std::size_t low = shortest_[t->place][t->kind], high = longest_[t->place][t->kind];
      if (may_be_empty(task_, *t)) low = 0;
      if (low > high) continue;
      if (is_last(t->place)) {
        reach[s].include(layers_ - high, layers_ - low);
      } else if (reach[t->to].end > low) {
        const std::size_t first = reach[t->to].first;
        reach[s].include(first > high ? first - high : 0, reach[t->to].end - 1 - low);
      }
    }
    first_[s] = static_cast<std::uint16_t>(
        std::max<std::size_t>(first_[s], std::min<std::size_t>(reach[s].first, layers_ + 1)));
    end_[s] = static_cast<std::uint16_t>(std::min<std::size_t>(end_[s], reach[s].end));
  }
}

// One loop for every pass over the graph, inlined into each.
template <class Visit>
inline void PathSearch::visit_arcs(std::size_t state, const Visit& visit) const {
  const std::size_t stride = layers_ + 1, first = first_[state], end = end_[state];
  if (first >= end) return;
  ArcRow row;
  const auto visit_row = [&](std::size_t length, std::size_t low, std::size_t high,
                             std::size_t to) {
    row.length = length;
    row.start = low;
    row.size = high - low;
    row.tail = state * stride + low;
    row.head = to * stride + low + length;
    return visit(row);
  };
  for (const Transition* t = task_.graph->begin(state); t != task_.graph->end(state); ++t) {
    if (forbidden(task_, state, *t)) continue;
    row.transition = t;
    if (is_last(t->place)) {
      if (!visit_row(0, first, end, task_.graph->num_states())) return;
      continue;
    }
    const std::size_t next_first = first_[t->to], next_end = end_[t->to];
    const auto visit_length = [&](std::size_t length) {
      const std::size_t low = std::max(first, next_first > length ? next_first - length : 0);
      const std::size_t high = std::min(end, next_end > length ? next_end - length : 0);
      return low >= high || visit_row(length, low, high, t->to);
    };
    if (may_be_empty(task_, *t) && !visit_length(0)) return;
    const std::size_t longest = longest_[t->place][t->kind];
    for (std::size_t length = shortest_[t->place][t->kind]; length <= longest; ++length) {
      if (!visit_length(length)) return;
    }
  }
}

void PathSearch::search_backward() {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  no_weight_.assign(stride, 0);
  to_end_.assign((states + 1) * stride, kInfinity);
  std::fill(to_end_.end() - static_cast<std::ptrdiff_t>(stride), to_end_.end(), 0);
  for (std::size_t s = states; s-- > 0;) {
    visit_arcs(s, [this](const ArcRow& row) {
      min_sum(&to_end_[row.tail], &to_end_[row.head], weights(row), row.size);
      return true;
    });
  }
}

void PathSearch::search_forward() {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  from_start_.assign(states * stride, kInfinity);
  from_start_[0] = 0;
  for (std::size_t s = 0; s < states; ++s) {
    visit_arcs(s, [this](const ArcRow& row) {
      if (is_last(row.transition->place)) return true;
      min_sum(&from_start_[row.head], &from_start_[row.tail], weights(row), row.size);
      return true;
    });
  }
}

// The least weight of the rest of a pipeline around every arc.
void PathSearch::search_through() {
  through_.reset(space_.kinds().size(), layers_, max_length_);
  for (std::size_t s = 0; s < task_.graph->num_states(); ++s) {
    visit_arcs(s, [this](const ArcRow& row) {
      const Transition& t = *row.transition;
      if (row.length == 0 && !is_last(t.place)) return true;
      min_sum(through_.row(t.place, t.kind, row.length) + row.start, &from_start_[row.tail],
              &to_end_[row.head], row.size);
      return true;
    });
  }
}

// Follows the values of to_end_, which were made by the same sums, so that they compare equal.
Path PathSearch::trace() {
  std::vector<PathStage> stages;
  std::size_t state = 0, done = 0;
  bool ended = to_end_[0] == kInfinity;
  while (!ended) {
    const Transition* taken = nullptr;
    visit_arcs(state, [&](const ArcRow& row) {
      if (done < row.start || done >= row.start + row.size) return true;
      const std::size_t i = done - row.start;
      if (to_end_[row.head + i] + weights(row)[i] != to_end_[row.tail + i]) return true;
      stages.push_back(stage_of(row, done));
      taken = row.transition;
      return false;
    });
    if (taken == nullptr) return {};
    done += stages.back().length;
    state = taken->to;
    ended = is_last(taken->place);
  }
  const bool true_groups = task_.graph->knows_links() || space_.order().has_value();
  return price_path(space_, *task_.pair, std::move(stages), true_groups);
}

PathStage PathSearch::stage_of(const ArcRow& row, std::size_t start) const {
  PathStage stage;
  stage.group = row.transition->group;
  stage.kind = row.transition->kind;
  stage.place = row.transition->place;
  stage.start = start;
  stage.length = is_last(stage.place) ? layers_ - start : row.length;
  if (stage.length == 0) return stage;
  std::size_t index = 0;
  const Option* option = option_of(stage.place, stage.kind, start, stage.length, &index);
  stage.config = option->config;
  stage.prefill_s = option->prefill_s;
  stage.decode_s = option->decode_s;
  stage.omega = table_.omega(option->config)[index];
  return stage;
}

const Option* PathSearch::option_of(StagePlace place, std::size_t kind, std::size_t start,
                                    std::size_t length, std::size_t* index) const {
  const Option* best = nullptr;
  double least = kInfinity;
  const auto& list = task_.options->at[place][kind];
  for (const auto& shape : table_.shapes()) {
    if (shape.length != length) continue;
    const std::size_t i = table_.index_of(shape, start);
    if (i == shape.starts.size()) continue;
    auto it = std::lower_bound(list.begin(), list.end(), shape.begin,
                               [](const Option& o, std::size_t c) { return o.config < c; });
    for (; it != list.end() && it->config < shape.end; ++it) {
      if (i < it->low || i >= it->high) continue;
      const double weight = option_weight(*it, kind, i);
      if (best == nullptr || weight < least) {
        least = weight;
        best = &*it;
        *index = i;
      }
    }
  }
  return best;
}

void PathSearch::fix_by_reduced_cost(double limit, OptionSet& options) {
  search_forward();
  search_through();
  for (const StagePlace place : kStagePlaces) {
    for (std::size_t kind = 0; kind < options.at[place].size(); ++kind) {
      std::vector<Option>& list = options.at[place][kind];
      std::size_t kept = 0;
      for (Option option : list) {
        const auto& shape = table_.shapes()[table_.shape_of(option.config)];
        const double base =
            weights_.prefill[kind] * option.prefill_s + weights_.decode[kind] * option.decode_s;
        const double* omega = table_.omega(option.config);
        const auto passes = [&](std::size_t i) {
          return base + weights_.omega * omega[i] +
                     through_.at(place, kind, shape.starts[i], shape.length) <=
                 limit;
        };
        while (option.low < option.high && !passes(option.low)) ++option.low;
        while (option.low < option.high && !passes(option.high - 1u)) --option.high;
        if (option.low < option.high) list[kept++] = option;
      }
      list.resize(kept);
    }
  }
  fix_nodes(limit, options);
}

void PathSearch::fix_nodes(double limit, OptionSet& options) const {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  // Every open box keeps its own; beyond this they would fill the memory.
  if (states > kMostWindows) return;
  options.first_node.assign(states, 0);
  options.end_node.assign(states, 0);
  for (std::size_t s = 0; s < states; ++s) {
    Reach reach;
    for (std::size_t a = first_[s]; a < end_[s]; ++a) {
      if (from_start_[s * stride + a] + to_end_[s * stride + a] <= limit) reach.include(a, a);
    }
    if (reach.end == 0) continue;
    options.first_node[s] = static_cast<std::uint16_t>(reach.first);
    options.end_node[s] = static_cast<std::uint16_t>(reach.end);
  }
}

}  // namespace tessera::solver::exact
