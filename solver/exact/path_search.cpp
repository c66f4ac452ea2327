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
  std::vector<double> row;
  for (std::size_t place = 0; place < 4; ++place) {
    shortest_[place].assign(kinds, layers_ + 1);
    longest_[place].assign(kinds, 0);
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      for (const Option& option : task_.options->at[place][kind]) {
        const auto& shape = table_.shapes()[table_.shape_of(option.config)];
        const std::size_t length = shape.length;
        shortest_[place][kind] = std::min(shortest_[place][kind], length);
        longest_[place][kind] = std::max(longest_[place][kind], length);
        const double base =
            weights_.prefill[kind] * option.prefill_s + weights_.decode[kind] * option.decode_s;
        const double* omega = table_.omega(option.config);
        if (place == 0 && shape.contiguous) {
          min_scaled(arcs_.middle(kind, length) + option.low, omega + option.low, base,
                     weights_.omega, option.high - option.low);
          continue;
        }
        for (std::size_t i = option.low; i < option.high; ++i) {
          double& cell = arcs_.at(place, kind, shape.starts[i], length);
          cell = std::min(cell, base + weights_.omega * omega[i]);
        }
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
      if (t->place >= 2 || forbidden(task_, s, *t)) continue;
      std::size_t low = shortest_[t->place][t->kind], high = longest_[t->place][t->kind];
      if (t->may_be_empty && empty_fits(t->kind)) low = 0;
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
      if (t->may_be_empty && empty_fits(t->kind)) low = 0;
      if (low > high) continue;
      if (t->place >= 2) {
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

void PathSearch::search_backward() {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  to_end_.assign(states * stride, kInfinity);
  for (std::size_t s = states; s-- > 0;) {
    const std::size_t first = first_[s], end = end_[s];
    if (first >= end) continue;
    double* here = &to_end_[s * stride];
    for (const Transition* t = task_.graph->begin(s); t != task_.graph->end(s); ++t) {
      if (forbidden(task_, s, *t)) continue;
      if (t->place >= 2) {
        for (std::size_t a = first; a < end; ++a) {
          here[a] = std::min(here[a], arcs_.at(t->place, t->kind, a, layers_ - a));
        }
        continue;
      }
      const double* next = &to_end_[t->to * stride];
      const std::size_t next_first = first_[t->to], next_end = end_[t->to];
      if (t->may_be_empty && empty_fits(t->kind)) {
        for (std::size_t a = first; a < end; ++a) here[a] = std::min(here[a], next[a]);
      }
      for (std::size_t l = shortest_[t->place][t->kind]; l <= longest_[t->place][t->kind]; ++l) {
        const std::size_t low = std::max(first, next_first > l ? next_first - l : 0);
        const std::size_t high = std::min(end, next_end > l ? next_end - l : 0);
        if (low >= high) continue;
        if (t->place == 0) {
          min_sum(here + low, next + low + l, arcs_.middle(t->kind, l) + low, high - low);
        } else {
          here[0] = std::min(here[0], next[l] + arcs_.at(1, t->kind, 0, l));
        }
      }
    }
  }
}

const Option* PathSearch::option_of(std::size_t place, std::size_t kind, std::size_t start,
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

// Follows the values of to_end_, which were made by the same sums, so that they compare equal.
Path PathSearch::trace() {
  const std::size_t stride = layers_ + 1;
  std::vector<PathStage> stages;
  std::size_t s = 0, a = 0;
  bool ended = to_end_[0] == kInfinity;
  while (!ended) {
    const double here = to_end_[s * stride + a];
    PathStage stage;
    const Transition* taken = nullptr;
    for (const Transition* t = task_.graph->begin(s); taken == nullptr && t != task_.graph->end(s);
         ++t) {
      if (forbidden(task_, s, *t)) continue;
      if (t->place >= 2) {
        if (arcs_.at(t->place, t->kind, a, layers_ - a) != here) continue;
        taken = t;
        stage.length = layers_ - a;
        continue;
      }
      const double* next = &to_end_[t->to * stride];
      if (t->may_be_empty && empty_fits(t->kind) && next[a] == here) {
        taken = t;
        continue;
      }
      for (std::size_t l = shortest_[t->place][t->kind];
           taken == nullptr && l <= longest_[t->place][t->kind] && a + l <= layers_; ++l) {
        if (next[a + l] + arcs_.at(t->place, t->kind, a, l) != here) continue;
        taken = t;
        stage.length = l;
      }
    }
    if (taken == nullptr) return {};
    stage.group = taken->group;
    stage.kind = taken->kind;
    stage.place = taken->place;
    stage.start = a;
    if (stage.length > 0) {
      std::size_t index = 0;
      const Option* option = option_of(stage.place, stage.kind, a, stage.length, &index);
      stage.config = option->config;
      stage.prefill_s = option->prefill_s;
      stage.decode_s = option->decode_s;
      stage.omega = table_.omega(option->config)[index];
    }
    stages.push_back(stage);
    a += stage.length;
    s = taken->to;
    ended = taken->place >= 2;
  }
  const bool true_groups = task_.graph->knows_links() || space_.order().has_value();
  return price_path(space_, *task_.pair, std::move(stages), true_groups);
}

void PathSearch::reduce(double limit, OptionSet& options) {
  search_forward();
  collect_through();
  for (std::size_t place = 0; place < 4; ++place) {
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
  reduce_nodes(limit, options);
}

void PathSearch::search_forward() {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  from_start_.assign(states * stride, kInfinity);
  from_start_[0] = 0;
  for (std::size_t s = 0; s < states; ++s) {
    const std::size_t first = first_[s], end = end_[s];
    if (first >= end) continue;
    const double* here = &from_start_[s * stride];
    for (const Transition* t = task_.graph->begin(s); t != task_.graph->end(s); ++t) {
      if (t->place >= 2 || forbidden(task_, s, *t)) continue;
      double* next = &from_start_[t->to * stride];
      const std::size_t next_first = first_[t->to], next_end = end_[t->to];
      if (t->may_be_empty && empty_fits(t->kind)) {
        for (std::size_t a = first; a < end; ++a) next[a] = std::min(next[a], here[a]);
      }
      for (std::size_t l = shortest_[t->place][t->kind]; l <= longest_[t->place][t->kind]; ++l) {
        const std::size_t low = std::max(first, next_first > l ? next_first - l : 0);
        const std::size_t high = std::min(end, next_end > l ? next_end - l : 0);
        if (low >= high) continue;
        if (t->place == 0) {
          min_sum(next + low + l, here + low, arcs_.middle(t->kind, l) + low, high - low);
        } else {
          next[l] = std::min(next[l], here[0] + arcs_.at(1, t->kind, 0, l));
        }
      }
    }
  }
}

// The least weight of the rest of a pipeline around every arc.
void PathSearch::collect_through() {
  const std::size_t states = task_.graph->num_states(), stride = layers_ + 1;
  through_.reset(space_.kinds().size(), layers_, max_length_);
  for (std::size_t s = 0; s < states; ++s) {
    const std::size_t first = first_[s], end = end_[s];
    if (first >= end) continue;
    const double* here = &from_start_[s * stride];
    for (const Transition* t = task_.graph->begin(s); t != task_.graph->end(s); ++t) {
      if (forbidden(task_, s, *t)) continue;
      if (t->place >= 2) {
        for (std::size_t a = first; a < end; ++a) {
          double& cell = through_.at(t->place, t->kind, a, layers_ - a);
          cell = std::min(cell, here[a]);
        }
        continue;
      }
      const double* next = &to_end_[t->to * stride];
      const std::size_t next_first = first_[t->to], next_end = end_[t->to];
      for (std::size_t l = shortest_[t->place][t->kind]; l <= longest_[t->place][t->kind]; ++l) {
        const std::size_t low = std::max(first, next_first > l ? next_first - l : 0);
        const std::size_t high = std::min(end, next_end > l ? next_end - l : 0);
        if (low >= high) continue;
        if (t->place == 0) {
          min_sum(through_.middle(t->kind, l) + low, here + low, next + low + l, high - low);
        } else {
          double& cell = through_.at(1, t->kind, 0, l);
          cell = std::min(cell, here[0] + next[l]);
        }
      }
    }
  }
}

void PathSearch::reduce_nodes(double limit, OptionSet& options) const {
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
