#include "programme.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tessera::solver {
namespace {

/// The greatest common divisor of prices in whole millionths; 0: they are no such multiples.
double common_step(const std::vector<double>& values) {
  constexpr double kUnits = 1e6, kMost = 1e15;
  std::int64_t divisor = 0;
  for (const double value : values) {
    const double units = std::round(value * kUnits);
    if (units > kMost || std::abs(units - value * kUnits) > 1e-6) return 0;
    divisor = std::gcd(divisor, static_cast<std::int64_t>(units));
  }
  return as_number(divisor) / kUnits;
}

}  // namespace

FleetProgramme::FleetProgramme(const FleetSpace& space, ProgrammeOptions options)
    : space_(space), options_(std::move(options)) {
  options_.by_node.resize(space.classes.size(), 0);
  options_.patterns.resize(space.classes.size());
  demand_rows_.resize(space.wanted.size());
  add_units();
  add_replicas();
  for (std::size_t u = 0; u < units_.size(); ++u) add_capacity(u);
  add_whole_rows();
  add_order();
  add_costs();
  add_demands();
  if (options_.with_constraints) {
    for (const FleetConstraint& rule : space.instance->constraints) add_constraint(rule);
  }
}

void FleetProgramme::add_units() {
  more_.resize(space_.classes.size());
  for (std::size_t c = 0; c < space_.classes.size(); ++c) {
    const std::int64_t count = space_.classes[c].count;
    if (options_.more_nodes) more_[c] = lp_.add_column(0, 1e7, 1, true);
    if (options_.by_node[c] == 0) {
      units_.push_back({c, count, 0});
      continue;
    }
    for (std::int64_t i = 0; i < count; ++i) units_.push_back({c, 1, i});
  }
  taken_.resize(units_.size());
  used_.resize(units_.size());
  single_of_unit_.resize(units_.size());
}

void FleetProgramme::add_replicas() {
  single_of_kind_.resize(space_.kinds.size());
  whole_of_kind_.resize(space_.kinds.size());
  for (std::size_t k = 0; k < space_.kinds.size(); ++k) {
    const Kind& kind = space_.kinds[k];
    for (const std::size_t c : kind.classes) {
      const double most = options_.more_nodes ? kFree : as_number(space_.classes[c].count);
      if (kind.is_whole()) {
        whole_of_kind_[k].push_back(whole_.size());
        const double high = options_.more_nodes ? 1e7 : std::floor(most / as_number(kind.nodes));
        whole_.push_back({k, c, lp_.add_column(0, high, 0, true)});
      }
    }
    if (kind.is_whole()) continue;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::size_t c = units_[u].node_class;
      if (!std::binary_search(kind.classes.begin(), kind.classes.end(), c)) continue;
      const double high =
          options_.more_nodes ? 1e10 : as_number(units_[u].count) * as_number(space_.fit(kind, c));
      single_of_kind_[k].push_back(single_.size());
      single_of_unit_[u].push_back(single_.size());
      single_.push_back({k, u, lp_.add_column(0, high, 0, true)});
    }
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const bool any_whole = std::any_of(whole_.begin(), whole_.end(), [&](const Whole& w) {
      return w.node_class == units_[u].node_class;
    });
    const double count = options_.more_nodes ? 1e7 : as_number(units_[u].count);
    if (any_whole) taken_[u] = lp_.add_column(0, count, 0, true);
    if (space_.billed_by_node() && !single_of_unit_[u].empty()) {
      used_[u] = lp_.add_column(0, count, 0, true);
    }
  }
}

// What single-node replicas may fill: `room` subtracts nodes that are not there for them, of
// `nodes` that are.
void FleetProgramme::add_capacity(std::size_t u) {
  const AlikeNodes& nodes = space_.classes[units_[u].node_class];
  Terms room;
  double count = as_number(units_[u].count);
  const std::optional<std::size_t>& more = more_[units_[u].node_class];
  if (used_[u]) {
    Terms terms{{*used_[u], 1}};
    if (taken_[u]) terms.emplace_back(*taken_[u], 1);
    if (more) terms.emplace_back(*more, -1);
    capacity_rows_.push_back({lp_.add_row(-kFree, count, terms), units_[u].node_class, {}});
    room.emplace_back(*used_[u], -1);
    count = 0;
  } else {
    if (taken_[u]) room.emplace_back(*taken_[u], 1);
    if (more) room.emplace_back(*more, -1);
  }
  for (std::size_t t = 0; t < space_.num_types(); ++t) {
    const double size = nodes.devices[t];
    Terms terms;
    for (const std::size_t s : single_of_unit_[u]) {
      const std::int32_t takes = space_.kinds[single_[s].kind].devices[t];
      if (takes > 0) terms.emplace_back(single_[s].column, takes);
    }
    if (terms.empty()) continue;
    for (const auto& [column, factor] : room) terms.emplace_back(column, factor * size);
    const std::size_t row = lp_.add_row(-kFree, count * size, std::move(terms));
    capacity_rows_.push_back({row, units_[u].node_class, t});
  }
  if (options_.patterns[units_[u].node_class]) {
    add_pattern_rows(u, room, count);
  } else {
    add_fitting_rows(u, room, count);
  }
}

// Dual feasible functions (Fekete and Schepers): what a share of a node may count as, so that what
// fits on a node still counts as at most one.
void FleetProgramme::add_fitting_rows(std::size_t u, const Terms& room, double count) {
  const AlikeNodes& nodes = space_.classes[units_[u].node_class];
  for (std::size_t t = 0; t < space_.num_types(); ++t) {
    const std::int64_t size = nodes.devices[t];
    for (std::int64_t k = 1; k <= 3 && size > 0; ++k) {
      Terms terms;
      bool says_more = false;
      for (const std::size_t s : single_of_unit_[u]) {
        const std::int64_t takes = space_.kinds[single_[s].kind].devices[t];
        const bool whole = (k + 1) * takes % size == 0;
        const double share = as_number(takes) / as_number(size);
        const double counts_as = whole ? share : as_number((k + 1) * takes / size) / as_number(k);
        says_more = says_more || counts_as > share;
        if (counts_as > 0) terms.emplace_back(single_[s].column, counts_as);
      }
      if (!says_more) continue;
      terms.insert(terms.end(), room.begin(), room.end());
      lp_.add_row(-kFree, count, std::move(terms));
    }
  }
}

void FleetProgramme::add_pattern_rows(std::size_t u, const Terms& room, double count) {
  const ClassPatterns& known = *options_.patterns[units_[u].node_class];
  Terms nodes = room;
  std::vector<Terms> of_shape(known.shapes.size());
  for (const Pattern& pattern : known.patterns) {
    const double most = options_.more_nodes ? 1e7 : as_number(units_[u].count);
    const std::size_t column = lp_.add_column(0, most, 0, true);
    nodes.emplace_back(column, 1);
    for (std::size_t s = 0; s < of_shape.size(); ++s) {
      if (pattern.count[s] > 0) of_shape[s].emplace_back(column, -as_number(pattern.count[s]));
    }
  }
  for (const std::size_t s : single_of_unit_[u]) {
    const auto shape =
        std::find(known.shapes.begin(), known.shapes.end(), space_.kinds[single_[s].kind].devices);
    of_shape[static_cast<std::size_t>(shape - known.shapes.begin())].emplace_back(single_[s].column,
                                                                                  1);
  }
  lp_.add_row(-kFree, count, std::move(nodes));
  for (Terms& terms : of_shape) lp_.add_row(-kFree, 0, std::move(terms));
}

// Nodes of a class that stand for each other: the fuller first. With replicas that run on them they
// do not.
void FleetProgramme::add_order() {
  if (!space_.running.empty()) return;
  for (std::size_t u = 0; u + 1 < units_.size(); ++u) {
    const std::size_t c = units_[u].node_class;
    if (options_.by_node[c] == 0 || units_[u + 1].node_class != c) continue;
    Terms terms;
    const auto add = [&](std::size_t unit, double sign) {
      for (const std::size_t s : single_of_unit_[unit]) {
        terms.emplace_back(single_[s].column,
                           sign * as_number(space_.kinds[single_[s].kind].num_devices));
      }
      if (taken_[unit]) {
        terms.emplace_back(*taken_[unit], sign * as_number(std::max<std::int64_t>(
                                                     1, space_.classes[c].num_devices)));
      }
    };
    add(u, 1);
    add(u + 1, -1);
    if (!terms.empty()) lp_.add_row(0, kFree, std::move(terms));
  }
}

std::int64_t FleetProgramme::most_whole(const Whole& whole) const {
  return options_.more_nodes
             ? 10'000'000
             : space_.classes[whole.node_class].count / space_.kinds[whole.kind].nodes;
}

// The nodes that whole-node replicas of a class take.
void FleetProgramme::add_whole_rows() {
  for (std::size_t c = 0; c < space_.classes.size(); ++c) {
    Terms terms;
    for (const Whole& w : whole_) {
      if (w.node_class == c) terms.emplace_back(w.column, as_number(space_.kinds[w.kind].nodes));
    }
    if (terms.empty()) continue;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].node_class == c) terms.emplace_back(*taken_[u], -1);
    }
    lp_.add_row(0, 0, std::move(terms));
  }
}

double FleetProgramme::usd(const Single& s) const {
  return space_.billed_by_node() ? 0 : space_.kinds[s.kind].usd_per_h;
}

void FleetProgramme::add_costs() {
  const FleetInstance& instance = *space_.instance;
  std::vector<std::pair<std::size_t, double>> usd_of, gpus_of;
  for (const Single& s : single_) {
    usd_of.emplace_back(s.column, usd(s));
    gpus_of.emplace_back(s.column, as_number(space_.kinds[s.kind].num_devices));
  }
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (used_[u]) usd_of.emplace_back(*used_[u], space_.classes[units_[u].node_class].usd_per_h);
  }
  for (const Whole& w : whole_) {
    const double nodes = as_number(space_.kinds[w.kind].nodes);
    usd_of.emplace_back(w.column, nodes * space_.whole_usd_per_h(w.node_class));
    gpus_of.emplace_back(w.column, nodes * as_number(space_.classes[w.node_class].num_devices));
  }
  if (options_.more_nodes) return;  // the nodes are what counts
  if (instance.objective == FleetObjective::rate) {
    multiple_ = lp_.add_column(0, 1, -1);
  } else {
    const auto& costs = instance.objective == FleetObjective::cost ? usd_of : gpus_of;
    std::vector<double> values;
    scale_ = 0;
    for (const auto& [column, cost] : costs) {
      values.push_back(cost);
      scale_ = std::max(scale_, cost);
    }
    const double each = instance.switch_usd_per_h();
    scale_ = std::max(scale_, each);
    if (scale_ <= 0) scale_ = 1;
    for (const auto& [column, cost] : costs) lp_.columns[column].cost = cost / scale_;
    if (each > 0) {
      add_switching(each);
      values.push_back(each);
    }
    step_ = common_step(values);
  }
  const std::optional<double> budget = instance.max_usd_per_h;
  if (!budget || !options_.with_budget) return;
  double most = 0;
  for (const auto& [column, cost] : usd_of) most = std::max(most, cost);
  if (most <= 0) return;
  Terms terms;
  for (const auto& [column, cost] : usd_of) {
    if (cost > 0) terms.emplace_back(column, cost / most);
  }
  lp_.add_row(-kFree, *budget * (1 + kGranted) / most, std::move(terms));
}

// Of replicas of which `running` run: one that starts, or stops, costs so much.
//   |n - running| = n - running + 2 stops,  stops >= running - n
double FleetProgramme::add_switch(std::size_t column, double running, double cost) {
  lp_.columns[column].cost += cost;
  if (running > 0) {
    const std::size_t stops = lp_.add_column(0, running, 2 * cost);
    lp_.add_row(running, kFree, {{column, 1}, {stops, 1}});
  }
  return -running * cost;
}

// Of a unit of several nodes: as if replicas could change places among these.
void FleetProgramme::add_switching(double usd_per_h) {
  const double cost = usd_per_h / scale_;
  double constant = cost * as_number(space_.num_leaving);
  for (const auto& running : space_.running) {
    const auto between = [&](std::size_t kind, std::size_t c, std::int64_t first,
                             std::int64_t count) {
      const std::vector<FleetSpace::At>& places = running[kind];
      return as_number(
          std::lower_bound(places.begin(), places.end(), FleetSpace::At{c, first + count}) -
          std::lower_bound(places.begin(), places.end(), FleetSpace::At{c, first}));
    };
    for (const Single& s : single_) {
      const Unit& unit = units_[s.unit];
      constant +=
          add_switch(s.column, between(s.kind, unit.node_class, unit.first, unit.count), cost);
    }
    for (const Whole& w : whole_) {
      constant += add_switch(
          w.column, between(w.kind, w.node_class, 0, space_.classes[w.node_class].count), cost);
    }
  }
  lp_.add_column(1, 1, constant);
}

void FleetProgramme::add_constraint(const FleetConstraint& rule) {
  const std::size_t m = rule.model;
  Terms replicas, nodes, devices;
  std::vector<Terms> of_unit(units_.size());
  const auto number_of = [&](const std::vector<std::int32_t>& counts) {
    std::int64_t total = 0;
    for (std::size_t t = 0; t < counts.size(); ++t) {
      if (!rule.device_type || space_.instance->device_types[t].name == *rule.device_type) {
        total += counts[t];
      }
    }
    return as_number(total);
  };
  for (const std::size_t k : space_.of_model[m]) {
    const Kind& kind = space_.kinds[k];
    for (const std::size_t s : single_of_kind_[k]) {
      replicas.emplace_back(single_[s].column, 1);
      devices.emplace_back(single_[s].column, number_of(kind.devices));
      of_unit[single_[s].unit].emplace_back(single_[s].column, -1);
    }
    for (const std::size_t w : whole_of_kind_[k]) {
      const double taken = as_number(kind.nodes);
      replicas.emplace_back(whole_[w].column, 1);
      nodes.emplace_back(whole_[w].column, taken);
      devices.emplace_back(whole_[w].column,
                           taken * number_of(space_.classes[whole_[w].node_class].devices));
    }
  }
  if (rule.min_replicas) lp_.add_row(as_number(*rule.min_replicas), kFree, replicas);
  if (rule.max_replicas) lp_.add_row(-kFree, as_number(*rule.max_replicas), replicas);
  if (rule.max_gpus) lp_.add_row(-kFree, as_number(*rule.max_gpus), devices);
  if (rule.not_beside) add_apart(m, *rule.not_beside);
  if (!rule.min_nodes) return;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    if (of_unit[u].empty()) continue;
    const double most = options_.more_nodes ? 1e7 : as_number(units_[u].count);
    const std::size_t with = lp_.add_column(0, most, 0, true);
    of_unit[u].emplace_back(with, 1);
    lp_.add_row(-kFree, 0, std::move(of_unit[u]));
    nodes.emplace_back(with, 1);
  }
  lp_.add_row(as_number(*rule.min_nodes), kFree, std::move(nodes));
}

// Nodes for one of two models, and nodes for the other.
void FleetProgramme::add_apart(std::size_t one, std::size_t other) {
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const AlikeNodes& nodes = space_.classes[units_[u].node_class];
    const double count = options_.more_nodes ? 1e7 : as_number(units_[u].count);
    Terms together;
    for (const std::size_t model : {one, other}) {
      std::vector<Terms> taken(space_.num_types());
      for (const std::size_t s : single_of_unit_[u]) {
        const Kind& kind = space_.kinds[single_[s].kind];
        if (kind.model != model) continue;
        for (std::size_t t = 0; t < taken.size(); ++t) {
          if (kind.devices[t] > 0) taken[t].emplace_back(single_[s].column, kind.devices[t]);
        }
      }
      const std::size_t with = lp_.add_column(0, count, 0, true);
      for (std::size_t t = 0; t < taken.size(); ++t) {
        if (taken[t].empty()) continue;
        taken[t].emplace_back(with, -static_cast<double>(nodes.devices[t]));
        lp_.add_row(-kFree, 0, std::move(taken[t]));
      }
      together.emplace_back(with, 1);
    }
    if (taken_[u]) together.emplace_back(*taken_[u], 1);
    if (more_[units_[u].node_class]) together.emplace_back(*more_[units_[u].node_class], -1);
    lp_.add_row(-kFree, as_number(units_[u].count), std::move(together));
  }
}

std::vector<FleetProgramme::Decision> FleetProgramme::decisions() const {
  std::vector<Decision> decisions;
  for (const Single& s : single_) {
    decisions.push_back({s.column, s.kind, space_.kinds[s.kind].model, units_[s.unit].node_class});
  }
  for (const Whole& w : whole_) {
    decisions.push_back({w.column, w.kind, space_.kinds[w.kind].model, w.node_class});
  }
  return decisions;
}

FleetCounts FleetProgramme::counts(const std::vector<double>& x) const {
  FleetCounts counts;
  counts.on_unit.assign(space_.kinds.size(), std::vector<std::int64_t>(units_.size(), 0));
  counts.in_class.assign(space_.kinds.size(), std::vector<std::int64_t>(space_.classes.size(), 0));
  for (const Single& s : single_) counts.on_unit[s.kind][s.unit] = std::llround(x[s.column]);
  for (const Whole& w : whole_) counts.in_class[w.kind][w.node_class] = std::llround(x[w.column]);
  return counts;
}

std::vector<double> FleetProgramme::nodes_added(const std::vector<double>& x) const {
  std::vector<double> more;
  for (const std::optional<std::size_t>& column : more_) more.push_back(column ? x[*column] : 0);
  return more;
}

std::vector<double> FleetProgramme::encode(const FleetCounts& counts) const {
  std::vector<double> x(lp_.columns.size(), std::numeric_limits<double>::quiet_NaN());
  for (const Single& s : single_) x[s.column] = as_number(counts.on_unit[s.kind][s.unit]);
  for (const Whole& w : whole_) x[w.column] = as_number(counts.in_class[w.kind][w.node_class]);
  return x;
}

}  // namespace tessera::solver
