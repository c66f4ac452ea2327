#include "formulation.h"

#include <algorithm>
#include <cmath>

namespace tessera::solver {

Formulation::Formulation(const Subproblem& problem, const VariableBounds& bounds, bool named)
    : problem_(problem),
      instance_(problem.instance),
      bounds_(bounds),
      named_(named),
      positions_(problem.num_positions()),
      groups_(instance_.groups.size()),
      layers_(instance_.num_layers()),
      bits_(instance_.num_bits()),
      cells_(bits_ * static_cast<std::size_t>(instance_.num_classes)) {
  unit_ = std::max(1e-12, std::fabs(bounds.objective_scale)) / 1000;
  prefill_unit_ = problem.time_unit_s(problem.prefill);
  decode_unit_ = problem.time_unit_s(problem.decode);
  if (named_) name_groups();
  find_integral_layers();
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
  add_stage_rule_rows();
  for (const Row& row : instance_.rows) add_side_row(row);
}

// What every file format takes as a name: letters, digits and underscores, not too many.
std::string Formulation::plain_name(const std::string& text) {
  std::string name = text.substr(0, 40);
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain) c = '_';
  }
  return name;
}

void Formulation::name_groups() {
  for (std::size_t g = 0; g < groups_; ++g) {
    const DeviceGroup& group = instance_.groups[g];
    const auto same = [&](const DeviceGroup& other) { return other.name == group.name; };
    const bool alone = std::count_if(instance_.groups.begin(), instance_.groups.end(), same) == 1;
    std::string tag = plain_name(alone ? group.name : group.name + "_" + group.node);
    if (std::find(tags_.begin(), tags_.end(), tag) != tags_.end()) tag += fmt::format("_{}", g);
    tags_.push_back(std::move(tag));
  }
}

// "16bit", or "class1_16bit" where layers have several shapes.
std::string Formulation::cell_name(std::size_t cell) const {
  const std::string bits = fmt::format("{}bit", instance_.bitwidths[cell % bits_]);
  return instance_.num_classes == 1 ? bits : fmt::format("class{}_{}", cell / bits_, bits);
}

void Formulation::add_times() {
  const ObjectiveCoefficients& c = problem_.coefficients;
  const auto& p = bounds_.prefill_max_s;
  const auto& d = bounds_.decode_max_s;
  tp_ = model_.add_column(p.low / prefill_unit_, p.high / prefill_unit_,
                          c.prefill_max * prefill_unit_ / unit_, false, "prefill_max");
  td_ = model_.add_column(d.low / decode_unit_, d.high / decode_unit_,
                          c.decode_max * decode_unit_ / unit_, false, "decode_max");
  round_ = model_.add_column(0, kFree, c.round * decode_unit_ / unit_, false, "decode_round");
}

void Formulation::add_positions() {
  const bool fixed_order = problem_.order.has_value();
  for (std::size_t j = 0; j < positions_; ++j) {
    const bool end = j + 1 == positions_;
    for (std::size_t g = 0; g < groups_; ++g) {
      const bool here = !fixed_order || (*problem_.order)[j] == g;
      const double low = fixed_order && here ? 1 : 0, high = here ? 1 : 0;
      x_.push_back(model_.add_column(low, high, 0, true,
                                     named_ ? fmt::format("stage{}_on_{}", j + 1, tags_[g]) : ""));
      // y is integer once x is: it need not be branched on.
      const bool may_end = !fixed_order || end;
      y_.push_back(
          model_.add_column(may_end ? low : 0, may_end ? high : 0, 0, false,
                            named_ ? fmt::format("stage{}_is_last_on_{}", j + 1, tags_[g]) : ""));
    }
  }
}

void Formulation::add_boundaries() {
  for (std::size_t j = 0; j < positions_; ++j) {
    const Interval& w = bounds_.end_layer[j];
    e_.push_back(
        model_.add_column(w.low, w.high, 0, true, make_name("layers_done_after_stage{}", j + 1)));
  }
  s_.assign(layers_ * positions_, kNone);
  for (std::size_t j = 0; j < positions_; ++j) {
    const Interval& w = bounds_.end_layer[j];
    Terms sum{{e_[j], -1.0}};
    for (std::size_t i = 0; i < layers_; ++i) {
      const auto index = static_cast<double>(i);
      if (index < w.low || index >= w.high) continue;
      s_[i * positions_ + j] =
          model_.add_column(0, 1, 0, true, make_name("layer{}_by_stage{}", i, j + 1));
      sum.emplace_back(s_[i * positions_ + j], 1.0);
    }
    model_.add_row(-w.low, -w.low, std::move(sum), make_name("layers_done_after_stage{}", j + 1));
  }
  for (std::size_t j = 0; j < positions_; ++j) {
    for (std::size_t i = 0; i < layers_; ++i) {
      const std::size_t here = s_[i * positions_ + j];
      if (here == kNone) continue;
      const std::size_t next = i + 1 < layers_ ? s_[(i + 1) * positions_ + j] : kNone;
      if (next != kNone) {
        model_.add_row(0, kFree, {{here, 1.0}, {next, -1.0}},
                       make_name("layer{}_by_stage{}_if_next", i, j + 1));
      }
      const std::size_t later = j + 1 < positions_ ? s_[i * positions_ + j + 1] : kNone;
      if (later != kNone) {
        model_.add_row(0, kFree, {{later, 1.0}, {here, -1.0}},
                       make_name("layer{}_by_stage{}_stays", i, j + 1));
      }
    }
  }
}

bool Formulation::may_hold(std::size_t layer, std::size_t j) const {
  const auto index = static_cast<double>(layer);
  return index < bounds_.end_layer[j].high && (j == 0 || index >= bounds_.end_layer[j - 1].low);
}

void Formulation::add_s(Terms& terms, double& constant, std::size_t layer, std::size_t j,
                        double factor) const {
  const std::size_t column = s_[layer * positions_ + j];
  if (column != kNone) {
    terms.emplace_back(column, factor);
  } else if (static_cast<double>(layer) < bounds_.end_layer[j].low) {
    constant += factor;
  }
}

double Formulation::most(std::size_t j, std::size_t g, std::size_t cell) const {
  const auto cls = static_cast<std::int32_t>(cell / bits_);
  const std::size_t bit = cell % bits_;
  if (!instance_.allowed_at(g, bit)) return 0;
  if (problem_.order && (*problem_.order)[j] != g) return 0;
  double fixed = problem_.fixed_bytes(g, place_at(j, positions_));
  if (!problem_.order) fixed = std::min(fixed, problem_.fixed_bytes(g, stage_place(j == 0, true)));
  const double room = instance_.groups[g].usable_bytes * (1 + kMemorySlack) - fixed;
  if (room < 0) return 0;
  double limit = bounds_.end_layer[j].high - (j == 0 ? 0 : bounds_.end_layer[j - 1].low);
  const auto fit = [&](double total, double each) {
    if (each > 0 && total < kFree) limit = std::min(limit, std::floor(total / each * (1 + 1e-7)));
  };
  fit(room * (1 + kMemorySlack), instance_.layer_bytes_at(g, cls, bit));
  fit(bounds_.prefill_max_s.high, instance_.layer_s(problem_.prefill, g, cls, bit));
  fit(bounds_.decode_max_s.high, instance_.layer_s(problem_.decode, g, cls, bit));
  return std::max(0.0, limit);
}

void Formulation::add_counts() {
  for (std::size_t j = 0; j < positions_; ++j) {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (std::size_t cell = 0; cell < cells_; ++cell) {
        const double high = most(j, g, cell);
        c_.push_back(high > 0 ? model_.add_column(0, high, 0, true,
                                                  named_ ? fmt::format("count_stage{}_{}_{}", j + 1,
                                                                       tags_[g], cell_name(cell))
                                                         : "")
                              : kNone);
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
        const std::size_t z =
            model_.add_column(0, 1, instance_.theta * omega / unit_, integral_[i] != 0,
                              make_name("layer{}_stage{}_{}bit", i, j + 1, instance_.bitwidths[b]));
        z_[(i * positions_ + j) * bits_ + b] = z;
        share.emplace_back(z, 1.0);
        quality.emplace_back(z, omega);
      }
      model_.add_row(-constant, -constant, std::move(share),
                     make_name("one_bitwidth_layer{}_stage{}", i, j + 1));
    }
  }
  const auto limit = problem_.omega_limit();
  if (!limit) return;
  const double scale = std::max(1e-9, std::fabs(*limit)) / 1000;
  for (auto& [column, omega] : quality) omega /= scale;
  model_.add_row(-kFree, *limit / scale, std::move(quality), make_name("quality_floor"));
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
      if (row.empty()) continue;
      model_.add_row(0, 0, std::move(row),
                     named_ ? fmt::format("counted_stage{}_{}", j + 1, cell_name(cell)) : "");
    }
    model_.add_row(0, 0, std::move(stage), make_name("layers_of_stage{}", j + 1));
  }
}

// Sum of m c + what the place needs <= usable, and nothing at all on a group that is not here.
void Formulation::add_memory_rows(std::size_t j) {
  const bool first = j == 0;
  for (std::size_t g = 0; g < groups_; ++g) {
    const double middle = problem_.fixed_bytes(g, stage_place(first, false));
    const double end = problem_.fixed_bytes(g, stage_place(first, true));
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
    model_.add_row(-kFree, 0, std::move(bytes), make_name("memory_stage{}_group{}", j + 1, g));
    if (problem_.order || layers.empty()) continue;
    // Not the most of any one bitwidth: where one is slow and another large, a mix of both can have
    // more layers than either alone.
    layers.emplace_back(x_[j * groups_ + g],
                        -most_layers(problem_, j, g, bounds_.prefill_max_s, bounds_.decode_max_s));
    model_.add_row(-kFree, 0, std::move(layers),
                   make_name("most_layers_stage{}_group{}", j + 1, g));
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
    const char* name;
    double unit;
    std::size_t slowest;
    const Interval& interval;
  };
  for (const Phase& phase :
       {Phase{problem_.prefill, "prefill", prefill_unit_, tp_, bounds_.prefill_max_s},
        Phase{problem_.decode, "decode", decode_unit_, td_, bounds_.decode_max_s}}) {
    Terms stage{{phase.slowest, -1.0}};
    for (std::size_t g = 0; g < groups_; ++g) {
      Terms here = stage_time(phase.costs, phase.unit, j, g);
      stage.insert(stage.end(), here.begin(), here.end());
      if (problem_.order || phase.interval.high >= kFree) continue;
      here.emplace_back(x_[j * groups_ + g], -phase.interval.high / phase.unit);
      model_.add_row(-kFree, 0, std::move(here),
                     make_name("{}_time_stage{}_group{}", phase.name, j + 1, g));
    }
    model_.add_row(-kFree, 0, std::move(stage), make_name("{}_time_stage{}", phase.name, j + 1));
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
    model_.add_row(-kFree, 0, std::move(prefill), make_name("prefill_time_group{}", g));
    model_.add_row(-kFree, 0, std::move(decode), make_name("decode_time_group{}", g));
    model_.add_row(-kFree, count, std::move(used), make_name("devices_group{}", g));
  }
}

// T >= link(g, h) where position j runs on g and j + 1 on h; rows only where that could bind.
void Formulation::add_link_rows() {
  if (problem_.order) return;  // a constant, in the bounds of Tp and Td
  const auto add = [&](const PhaseCosts& costs, const char* phase, double unit, std::size_t slowest,
                       double low) {
    for (std::size_t g = 0; g < groups_; ++g) {
      for (std::size_t h = 0; h < groups_; ++h) {
        const double link = instance_.link_s(costs, g, h);
        if (link <= low) continue;
        const double gain = (link - low) / unit;
        for (std::size_t j = 0; j + 1 < positions_; ++j) {
          model_.add_row(
              low / unit - gain, kFree,
              {{slowest, 1.0}, {x_[j * groups_ + g], -gain}, {x_[(j + 1) * groups_ + h], -gain}},
              make_name("{}_link_stage{}_group{}_group{}", phase, j + 1, g, h));
        }
      }
    }
  };
  add(problem_.prefill, "prefill", prefill_unit_, tp_, bounds_.prefill_max_s.low);
  add(problem_.decode, "decode", decode_unit_, td_, bounds_.decode_max_s.low);
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
    if (!problem_.order) {
      model_.add_row(0, kFree, {{x_[here], 1.0}, {y_[here], -1.0}},
                     make_name("last_is_here_stage{}_group{}", j + 1, g));
    }
    const bool must_hold = j == 0 || !instance_.may_be_empty();
    occupied.emplace_back(must_hold ? x_[here] : y_[here], -1.0);
  }
  model_.add_row(0, kFree, std::move(occupied), make_name("occupied_stage{}", j + 1));
  if (problem_.order) return;
  model_.add_row(all || j < 2 ? 1 : 0, 1, std::move(exists), make_name("exists_stage{}", j + 1));
  model_.add_row(0, 0, std::move(last), make_name("last_stage{}", j + 1));
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
  model_.add_row(-kFree, 0, std::move(sum), make_name("decode_round_one_by_one"));
  model_.add_row(-kFree, 0, {{round_, -1.0}, {td_, c.round_micro_batches}},
                 make_name("decode_round_steady"));
}

}  // namespace tessera::solver
