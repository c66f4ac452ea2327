#include "ilp/formulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/assign_bits.h"

namespace tessera::solver {
namespace {

// Most layers that a position can hold given its memory and the slowest stage allowed.
double most_layers(const PairProblem& problem, std::size_t j, std::size_t group,
                   const Window& prefill_max_s, const Window& decode_max_s) {
  const Instance& in = problem.instance;
  double least_bytes = kFree, least_prefill = kFree, least_decode = kFree;
  for (std::int32_t cls = 0; cls < in.num_classes; ++cls) {
    for (std::size_t b = 0; b < in.num_bits(); ++b) {
      if (!in.allowed_at(group, b)) continue;
      least_bytes = std::min(least_bytes, in.layer_bytes_at(group, cls, b));
      least_prefill = std::min(least_prefill, in.layer_s(problem.prefill, group, cls, b));
      least_decode = std::min(least_decode, in.layer_s(problem.decode, group, cls, b));
    }
  }
  if (least_bytes == kFree) return 0;
  const std::size_t n = problem.num_positions();
  double fixed = problem.fixed_bytes(group, {j == 0, j + 1 == n});
  if (!problem.order) fixed = std::min(fixed, problem.fixed_bytes(group, {j == 0, true}));
  const double room = in.groups[group].usable_bytes * (1 + kMemorySlack) - fixed;
  double most = static_cast<double>(in.num_layers());
  const auto fit = [&](double total, double each) {
    if (total < 0) most = 0;
    if (each > 0 && total < kFree) most = std::min(most, std::floor(total / each * (1 + 1e-7)));
  };
  fit(room, least_bytes);
  fit(prefill_max_s.high, least_prefill);
  fit(decode_max_s.high, least_decode);
  return std::max(0.0, most);
}

}  // namespace

std::optional<std::vector<Window>> end_layer_windows(const PairProblem& problem,
                                                     Window prefill_max_s, Window decode_max_s) {
  const Instance& in = problem.instance;
  const std::size_t n = problem.num_positions();
  const auto layers = static_cast<double>(in.num_layers());
  std::vector<double> most(n, 0);
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t g = 0; g < in.groups.size(); ++g) {
      if (problem.order && (*problem.order)[j] != g) continue;
      most[j] = std::max(most[j], most_layers(problem, j, g, prefill_max_s, decode_max_s));
    }
  }
  // Stages that hold at least one layer; with a free order only the first two are sure to exist.
  const auto least = [&](std::size_t j) {
    if (!in.allow_empty_stage || j == 0) return 1.0;
    return problem.order && j + 1 == n ? 1.0 : 0.0;
  };
  std::vector<Window> windows(n);
  double low = 0, high = 0;
  for (std::size_t j = 0; j < n; ++j) {
    low += least(j);
    high = std::min(layers, high + most[j]);
    windows[j] = {low, high};
  }
  double after_most = 0, after_least = 0;
  for (std::size_t j = n; j-- > 0;) {
    windows[j].low = std::max(windows[j].low, layers - after_most);
    windows[j].high = std::min(windows[j].high, layers - after_least);
    if (windows[j].low > windows[j].high) return std::nullopt;
    after_most += most[j];
    after_least += least(j);
  }
  return windows;
}

Formulation::Formulation(const PairProblem& problem, const FormulationWindows& windows)
    : problem_(problem),
      instance_(problem.instance),
      windows_(windows),
      positions_(problem.num_positions()),
      groups_(instance_.groups.size()),
      layers_(instance_.num_layers()),
      bits_(instance_.num_bits()),
      cells_(bits_ * static_cast<std::size_t>(instance_.num_classes)) {
  unit_ = std::max(1e-12, std::fabs(windows.objective_scale)) / 1000;
  prefill_unit_ = problem.time_unit_s(problem.prefill);
  decode_unit_ = problem.time_unit_s(problem.decode);
  add_times();
  add_positions();
  add_boundaries();
  add_counts();
  add_shares();
  add_count_rows();
  for (std::size_t j = 0; j < positions_; ++j) {
    add_memory_rows(j);
    add_time_rows(j);
    add_occupancy_rows(j);
  }
  add_group_rows();
  add_link_rows();
  add_objective_rows();
}

void Formulation::add_times() {
  const ObjectiveCoefficients& c = problem_.coefficients;
  const auto& p = windows_.prefill_max_s;
  const auto& d = windows_.decode_max_s;
  tp_ = model_.add_column(p.low / prefill_unit_, p.high / prefill_unit_,
                          c.prefill_max * prefill_unit_ / unit_);
  td_ = model_.add_column(d.low / decode_unit_, d.high / decode_unit_,
                          c.decode_max * decode_unit_ / unit_);
  round_ = model_.add_column(0, kFree, c.round * decode_unit_ / unit_);
}

void Formulation::add_positions() {
  const bool fixed_order = problem_.order.has_value();
  for (std::size_t j = 0; j < positions_; ++j) {
    const bool end = j + 1 == positions_;
    for (std::size_t g = 0; g < groups_; ++g) {
      const bool here = !fixed_order || (*problem_.order)[j] == g;
      const double low = fixed_order && here ? 1 : 0, high = here ? 1 : 0;
      x_.push_back(model_.add_column(low, high, 0, true, 0));
      // y is integer once x is: it need not be branched on.
      const bool may_end = !fixed_order || end;
      y_.push_back(model_.add_column(may_end ? low : 0, may_end ? high : 0));
    }
  }
}

void Formulation::add_boundaries() {
  for (std::size_t j = 0; j < positions_; ++j) {
    const Window& w = windows_.end_layer[j];
    e_.push_back(model_.add_column(w.low, w.high, 0, true, 1));
  }
  s_.assign(layers_ * positions_, kNone);
  for (std::size_t j = 0; j < positions_; ++j) {
    const Window& w = windows_.end_layer[j];
    Terms sum{{e_[j], -1.0}};
    for (std::size_t i = 0; i < layers_; ++i) {
      const auto index = static_cast<double>(i);
      if (index < w.low || index >= w.high) continue;
      s_[i * positions_ + j] = model_.add_column(0, 1, 0, true, 3);
      sum.emplace_back(s_[i * positions_ + j], 1.0);
    }
    model_.add_row(-w.low, -w.low, std::move(sum));
  }
  for (std::size_t j = 0; j < positions_; ++j) {
    for (std::size_t i = 0; i < layers_; ++i) {
      const std::size_t here = s_[i * positions_ + j];
      if (here == kNone) continue;
      const std::size_t next = i + 1 < layers_ ? s_[(i + 1) * positions_ + j] : kNone;
      if (next != kNone) model_.add_row(0, kFree, {{here, 1.0}, {next, -1.0}});
      const std::size_t later = j + 1 < positions_ ? s_[i * positions_ + j + 1] : kNone;
      if (later != kNone) model_.add_row(0, kFree, {{later, 1.0}, {here, -1.0}});
    }
  }
}

bool Formulation::may_hold(std::size_t layer, std::size_t j) const {
  const auto index = static_cast<double>(layer);
  return index < windows_.end_layer[j].high && (j == 0 || index >= windows_.end_layer[j - 1].low);
}

void Formulation::add_s(Terms& terms, double& constant, std::size_t layer, std::size_t j,
                        double factor) const {
  const std::size_t column = s_[layer * positions_ + j];
  if (column != kNone) {
    terms.emplace_back(column, factor);
  } else if (static_cast<double>(layer) < windows_.end_layer[j].low) {
    constant += factor;
  }
}

double Formulation::most(std::size_t j, std::size_t g, std::size_t cell) const {
  const auto cls = static_cast<std::int32_t>(cell / bits_);
  const std::size_t bit = cell % bits_;
  if (!instance_.allowed_at(g, bit)) return 0;
  if (problem_.order && (*problem_.order)[j] != g) return 0;
  double fixed = problem_.fixed_bytes(g, {j == 0, j + 1 == positions_});
  if (!problem_.order) fixed = std::min(fixed, problem_.fixed_bytes(g, {j == 0, true}));
  const double room = instance_.groups[g].usable_bytes * (1 + kMemorySlack) - fixed;
  if (room < 0) return 0;
  double limit = windows_.end_layer[j].high - (j == 0 ? 0 : windows_.end_layer[j - 1].low);
  const auto fit = [&](double total, double each) {
    if (each > 0 && total < kFree) limit = std::min(limit, std::floor(total / each * (1 + 1e-7)));
  };
  fit(room * (1 + kMemorySlack), instance_.layer_bytes_at(g, cls, bit));
  fit(windows_.prefill_max_s.high, instance_.layer_s(problem_.prefill, g, cls, bit));
  fit(windows_.decode_max_s.high, instance_.layer_s(problem_.decode, g, cls, bit));
  return std::max(0.0, limit);
}

void Formulation::add_counts() {
  for (std::size_t j = 0; j < positions_; ++j) {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (std::size_t cell = 0; cell < cells_; ++cell) {
        const double high = most(j, g, cell);
        c_.push_back(high > 0 ? model_.add_column(0, high, 0, true, 2) : kNone);
      }
    }
  }
}

void Formulation::add_shares() {
  Terms quality;
  z_.assign(layers_ * positions_ * bits_, kNone);
  for (std::size_t i = 0; i < layers_; ++i) {
    for (std::size_t j = 0; j < positions_; ++j) {
      if (!may_hold(i, j)) continue;
      Terms share;
      double constant = 0;
      add_s(share, constant, i, j, -1);
      if (j > 0) add_s(share, constant, i, j - 1, 1);
      for (std::size_t b = 0; b < bits_; ++b) {
        const double omega = instance_.omega_at(i, b);
        const std::size_t z = model_.add_column(0, 1, instance_.theta * omega / unit_);
        z_[(i * positions_ + j) * bits_ + b] = z;
        share.emplace_back(z, 1.0);
        quality.emplace_back(z, omega);
      }
      model_.add_row(-constant, -constant, std::move(share));
    }
  }
  const auto limit = problem_.omega_limit();
  if (!limit) return;
  const double scale = std::max(1e-9, std::fabs(*limit)) / 1000;
  for (auto& [column, omega] : quality) omega /= scale;
  model_.add_row(-kFree, *limit / scale, std::move(quality));
}

void Formulation::add_count_rows() {
  for (std::size_t j = 0; j < positions_; ++j) {
    Terms stage{{e_[j], -1.0}};
    if (j > 0) stage.emplace_back(e_[j - 1], 1.0);
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      Terms row;
      for (std::size_t g = 0; g < groups_; ++g) {
        if (c_at(j, g, cell) == kNone) continue;
        row.emplace_back(c_at(j, g, cell), -1.0);
        stage.emplace_back(c_at(j, g, cell), 1.0);
      }
      for (std::size_t i = 0; i < layers_; ++i) {
        const std::size_t z = z_[(i * positions_ + j) * bits_ + cell % bits_];
        if (z == kNone || static_cast<std::size_t>(instance_.layer_class[i]) != cell / bits_) {
          continue;
        }
        row.emplace_back(z, 1.0);
      }
      if (!row.empty()) model_.add_row(0, 0, std::move(row));
    }
    model_.add_row(0, 0, std::move(stage));
  }
}

// Sum of m c + what the place needs <= usable, and nothing at all on a group that is not here.
void Formulation::add_memory_rows(std::size_t j) {
  const bool first = j == 0;
  for (std::size_t g = 0; g < groups_; ++g) {
    const double middle = problem_.fixed_bytes(g, {first, false});
    const double end = problem_.fixed_bytes(g, {first, true});
    const double usable = std::max(1.0, instance_.groups[g].usable_bytes);
    const double scale = usable / 1000;
    const double room = instance_.groups[g].usable_bytes * (1 + kMemorySlack);
    Terms bytes, layers;
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      if (c_at(j, g, cell) == kNone) continue;
      const auto cls = static_cast<std::int32_t>(cell / bits_);
      bytes.emplace_back(c_at(j, g, cell), instance_.layer_bytes_at(g, cls, cell % bits_) / scale);
      layers.emplace_back(c_at(j, g, cell), 1.0);
    }
    bytes.emplace_back(x_[j * groups_ + g], (middle - room) / scale);
    bytes.emplace_back(y_[j * groups_ + g], (end - middle) / scale);
    model_.add_row(-kFree, 0, std::move(bytes));
    if (problem_.order || layers.empty()) continue;
    // Not the most of any one bitwidth: where one is slow and another large, a mix of both can have
    // more layers than either alone.
    layers.emplace_back(x_[j * groups_ + g], -most_layers(problem_, j, g, windows_.prefill_max_s,
                                                          windows_.decode_max_s));
    model_.add_row(-kFree, 0, std::move(layers));
  }
}

Formulation::Terms Formulation::stage_time(const PhaseCosts& costs, double unit, std::size_t j,
                                           std::size_t g) const {
  Terms terms;
  for (std::size_t cell = 0; cell < cells_; ++cell) {
    if (c_at(j, g, cell) == kNone) continue;
    const auto cls = static_cast<std::int32_t>(cell / bits_);
    terms.emplace_back(c_at(j, g, cell), instance_.layer_s(costs, g, cls, cell % bits_) / unit);
  }
  if (j == 0) terms.emplace_back(x_[g], costs.first_s[g] / unit);
  terms.emplace_back(y_[j * groups_ + g], costs.last_s[g] / unit);
  return terms;
}

void Formulation::add_time_rows(std::size_t j) {
  struct Phase {
    const PhaseCosts& costs;
    double unit;
    std::size_t slowest;
    const Window& window;
  };
  for (const Phase& phase : {Phase{problem_.prefill, prefill_unit_, tp_, windows_.prefill_max_s},
                             Phase{problem_.decode, decode_unit_, td_, windows_.decode_max_s}}) {
    Terms stage{{phase.slowest, -1.0}};
    for (std::size_t g = 0; g < groups_; ++g) {
      Terms here = stage_time(phase.costs, phase.unit, j, g);
      stage.insert(stage.end(), here.begin(), here.end());
      if (problem_.order || phase.window.high >= kFree) continue;
      here.emplace_back(x_[j * groups_ + g], -phase.window.high / phase.unit);
      model_.add_row(-kFree, 0, std::move(here));
    }
    model_.add_row(-kFree, 0, std::move(stage));
  }
}

// The stages of one group together take at most its number of devices times the slowest stage:
// implied by the rows above only once x is integer.
void Formulation::add_group_rows() {
  if (problem_.order) return;
  for (std::size_t g = 0; g < groups_; ++g) {
    const auto count = static_cast<double>(instance_.groups[g].count);
    Terms prefill{{tp_, -count}}, decode{{td_, -count}}, used;
    for (std::size_t j = 0; j < positions_; ++j) {
      const Terms p = stage_time(problem_.prefill, prefill_unit_, j, g);
      const Terms d = stage_time(problem_.decode, decode_unit_, j, g);
      prefill.insert(prefill.end(), p.begin(), p.end());
      decode.insert(decode.end(), d.begin(), d.end());
      used.emplace_back(x_[j * groups_ + g], 1.0);
    }
    model_.add_row(-kFree, 0, std::move(prefill));
    model_.add_row(-kFree, 0, std::move(decode));
    model_.add_row(-kFree, count, std::move(used));
  }
}

// T >= link(g, h) where position j runs on g and j + 1 on h; rows only where that could bind.
void Formulation::add_link_rows() {
  if (problem_.order) return;  // a constant, in the windows of Tp and Td
  const auto add = [&](const PhaseCosts& costs, double unit, std::size_t slowest, double low) {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (std::size_t h = 0; h < groups_; ++h) {
        const double link = instance_.link_s(costs, g, h);
        if (link <= low) continue;
        const double gain = (link - low) / unit;
        for (std::size_t j = 0; j + 1 < positions_; ++j) {
          model_.add_row(
              low / unit - gain, kFree,
              {{slowest, 1.0}, {x_[j * groups_ + g], -gain}, {x_[(j + 1) * groups_ + h], -gain}});
        }
      }
    }
  };
  add(problem_.prefill, prefill_unit_, tp_, windows_.prefill_max_s.low);
  add(problem_.decode, decode_unit_, td_, windows_.decode_max_s.low);
}

// Which positions exist (a prefix of them), which of them is the last, and who may be empty.
void Formulation::add_occupancy_rows(std::size_t j) {
  const bool all = !instance_.allow_empty_stage || problem_.order;
  Terms exists, last, occupied{{e_[j], 1.0}};
  if (j > 0) occupied.emplace_back(e_[j - 1], -1.0);
  for (std::size_t g = 0; g < groups_; ++g) {
    const std::size_t here = j * groups_ + g, next = here + groups_;
    exists.emplace_back(x_[here], 1.0);
    last.emplace_back(y_[here], 1.0);
    last.emplace_back(x_[here], -1.0);
    if (j + 1 < positions_) last.emplace_back(x_[next], 1.0);
    if (!problem_.order) model_.add_row(0, kFree, {{x_[here], 1.0}, {y_[here], -1.0}});
    const bool must_hold = j == 0 || !instance_.allow_empty_stage;
    occupied.emplace_back(must_hold ? x_[here] : y_[here], -1.0);
  }
  model_.add_row(0, kFree, std::move(occupied));
  if (problem_.order) return;
  model_.add_row(all || j < 2 ? 1 : 0, 1, std::move(exists));
  model_.add_row(0, 0, std::move(last));
}

void Formulation::add_objective_rows() {
  const ObjectiveCoefficients& c = problem_.coefficients;
  Terms sum{{round_, -1.0}};
  for (std::size_t j = 0; j < positions_; ++j) {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (const auto& [column, s] : stage_time(problem_.decode, decode_unit_, j, g)) {
        sum.emplace_back(column, s);
        model_.columns[column].cost += s * c.decode_sum * decode_unit_ / unit_;
      }
      for (const auto& [column, s] : stage_time(problem_.prefill, prefill_unit_, j, g)) {
        model_.columns[column].cost += s * c.prefill_sum * prefill_unit_ / unit_;
      }
    }
  }
  if (c.round <= 0) return;
  model_.add_row(-kFree, 0, std::move(sum));
  model_.add_row(-kFree, 0, {{round_, -1.0}, {td_, c.round_micro_batches}});
}

std::optional<Candidate> Formulation::decode(const std::vector<double>& x) const {
  const auto count = [&](std::size_t column) {
    return column == kNone ? std::size_t{0}
                           : static_cast<std::size_t>(std::lround(std::max(0.0, x[column])));
  };
  Candidate plan;
  plan.prefill_micro_batch_size = problem_.prefill_size;
  plan.decode_micro_batch_size = problem_.decode_size;
  plan.first_layer.push_back(0);
  plan.bit.assign(layers_, 0);
  for (std::size_t j = 0; j < positions_; ++j) {
    std::size_t group = groups_;
    for (std::size_t g = 0; g < groups_; ++g) {
      if (count(x_[j * groups_ + g]) == 1) group = g;
    }
    if (group == groups_) break;
    const std::size_t begin = plan.first_layer.back(), end = count(e_[j]);
    if (end < begin || end > layers_) return std::nullopt;
    for (std::int32_t cls = 0; cls < instance_.num_classes; ++cls) {
      std::vector<std::size_t> members, counts;
      for (std::size_t i = begin; i < end; ++i) {
        if (instance_.layer_class[i] == cls) members.push_back(i);
      }
      for (std::size_t b = 0; b < bits_; ++b) {
        counts.push_back(count(c_at(j, group, static_cast<std::size_t>(cls) * bits_ + b)));
      }
      if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) != members.size()) {
        return std::nullopt;
      }
      assign_bits(instance_, members, counts, plan.bit);
    }
    plan.order.push_back(group);
    plan.first_layer.push_back(end);
  }
  if (plan.order.empty() || plan.first_layer.back() != layers_) return std::nullopt;
  return plan;
}

}  // namespace tessera::solver
