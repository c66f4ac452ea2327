#include "lp_relaxation.h"

#include <algorithm>
#include <limits>

namespace tessera::solver {

LpRelaxation::LpRelaxation(const Subproblem& problem, std::function<bool()> should_stop)
    : problem_(problem) {
  prefill_unit_ = problem.time_unit_s(problem.prefill);
  decode_unit_ = problem.time_unit_s(problem.decode);
  LinearModel model;
  tp_ = model.add_column(0, kFree);
  td_ = model.add_column(0, kFree);
  round_ = model.add_column(0, kFree);
  cost_ = model.add_column(-kFree, kFree);
  add_layers(model);
  add_slots(model);
  add_links(model);
  add_objective(model);
  lp_.emplace(model, std::move(should_stop));
}

void LpRelaxation::add_layers(LinearModel& model) {
  const Instance& in = problem_.instance;
  std::vector<LinearModel::Term> quality;
  for (std::size_t i = 0; i < in.num_layers(); ++i) {
    std::vector<LinearModel::Term> one;
    for (std::size_t b = 0; b < in.num_bits(); ++b) {
      z_.push_back(model.add_column(0, 1));
      one.emplace_back(z_.back(), 1.0);
      quality.emplace_back(z_.back(), in.omega_at(i, b));
    }
    model.add_row(1, 1, std::move(one));
  }
  if (const auto limit = problem_.omega_limit()) model.add_row(-kFree, *limit, std::move(quality));
}

void LpRelaxation::add_slots(LinearModel& model) {
  const Instance& in = problem_.instance;
  if (problem_.order) {
    for (std::size_t j = 0; j < problem_.order->size(); ++j) {
      slots_.push_back(
          {(*problem_.order)[j], 1, j == 0, j + 1 == problem_.order->size(), 0, 0, {}});
    }
  } else {
    for (std::size_t g = 0; g < in.groups.size(); ++g) {
      slots_.push_back({g, static_cast<double>(in.groups[g].count), true, true, 0, 0, {}});
    }
  }
  std::vector<LinearModel::Term> firsts, lasts;
  const auto classes = static_cast<std::size_t>(in.num_classes);
  std::vector<std::vector<LinearModel::Term>> balance(classes * in.num_bits());
  for (std::size_t i = 0; i < in.num_layers(); ++i) {
    for (std::size_t b = 0; b < in.num_bits(); ++b) {
      const auto cls = static_cast<std::size_t>(in.layer_class[i]);
      balance[cls * in.num_bits() + b].emplace_back(z_[i * in.num_bits() + b], -1.0);
    }
  }
  for (Slot& slot : slots_) {
    slot.first = model.add_column(0, slot.may_be_first ? 1 : 0);
    slot.last = model.add_column(0, slot.may_be_last ? 1 : 0);
    firsts.emplace_back(slot.first, 1.0);
    lasts.emplace_back(slot.last, 1.0);
    for (std::size_t cell = 0; cell < balance.size(); ++cell) {
      const bool runs = in.allowed_at(slot.group, cell % in.num_bits());
      slot.c.push_back(model.add_column(0, runs ? static_cast<double>(in.num_layers()) : 0));
      balance[cell].emplace_back(slot.c.back(), 1.0);
    }
    add_slot_rows(model, slot);
  }
  for (auto& row : balance) model.add_row(0, 0, std::move(row));
  model.add_row(1, 1, std::move(firsts));
  model.add_row(1, 1, std::move(lasts));
}

void LpRelaxation::add_slot_rows(LinearModel& model, const Slot& slot) {
  const Instance& in = problem_.instance;
  std::vector<LinearModel::Term> bytes, prefill, decode;
  const double usable = std::max(1.0, in.groups[slot.group].usable_bytes);
  for (std::size_t cell = 0; cell < slot.c.size(); ++cell) {
    const auto cls = static_cast<std::int32_t>(cell / in.num_bits());
    const std::size_t bit = cell % in.num_bits();
    bytes.emplace_back(slot.c[cell], in.layer_bytes_at(slot.group, cls, bit) / usable);
    prefill.emplace_back(slot.c[cell],
                         in.layer_s(problem_.prefill, slot.group, cls, bit) / prefill_unit_);
    decode.emplace_back(slot.c[cell],
                        in.layer_s(problem_.decode, slot.group, cls, bit) / decode_unit_);
  }
  const bool only = problem_.num_positions() == 1;
  const double middle = problem_.fixed_bytes(slot.group, StagePlace::middle);
  const auto extra = [&](StagePlace place) {
    return (problem_.fixed_bytes(slot.group, place) - middle) / usable;
  };
  // A single stage is both ends at once.
  bytes.emplace_back(slot.first, extra(stage_place(true, only)));
  if (!only) bytes.emplace_back(slot.last, extra(StagePlace::last));
  prefill.emplace_back(slot.first, problem_.prefill.first_s[slot.group] / prefill_unit_);
  prefill.emplace_back(slot.last, problem_.prefill.last_s[slot.group] / prefill_unit_);
  decode.emplace_back(slot.first, problem_.decode.first_s[slot.group] / decode_unit_);
  decode.emplace_back(slot.last, problem_.decode.last_s[slot.group] / decode_unit_);
  const double room = in.groups[slot.group].usable_bytes * (1 + kMemorySlack) - middle;
  model.add_row(-kFree, slot.count * std::max(0.0, room) / usable, std::move(bytes));
  sum_prefill_.insert(sum_prefill_.end(), prefill.begin(), prefill.end());
  sum_decode_.insert(sum_decode_.end(), decode.begin(), decode.end());
  prefill.emplace_back(tp_, -slot.count);
  decode.emplace_back(td_, -slot.count);
  model.add_row(-kFree, 0, std::move(prefill));
  model.add_row(-kFree, 0, std::move(decode));
}

void LpRelaxation::add_links(LinearModel& model) {
  prefill_link_s_ = problem_.slowest_link_s(problem_.prefill);
  decode_link_s_ = problem_.slowest_link_s(problem_.decode);
  model.columns[tp_].low = prefill_link_s_ / prefill_unit_;
  model.columns[td_].low = decode_link_s_ / decode_unit_;
}

void LpRelaxation::add_objective(LinearModel& model) {
  const Instance& in = problem_.instance;
  const ObjectiveCoefficients& c = problem_.coefficients;
  std::vector<LinearModel::Term> row{{round_, -1.0}, {td_, c.round_micro_batches}};
  model.add_row(-kFree, 0, std::move(row));
  row = sum_decode_;
  row.emplace_back(round_, -1.0);
  model.add_row(-kFree, 0, std::move(row));
  std::vector<LinearModel::Term> cost{{cost_, -1.0},
                                      {tp_, c.prefill_max * prefill_unit_},
                                      {td_, c.decode_max * decode_unit_},
                                      {round_, c.round * decode_unit_}};
  for (const auto& [column, s] : sum_prefill_) {
    cost.emplace_back(column, s * c.prefill_sum * prefill_unit_);
  }
  for (const auto& [column, s] : sum_decode_) {
    cost.emplace_back(column, s * c.decode_sum * decode_unit_);
  }
  for (std::size_t cell = 0; cell < z_.size(); ++cell) {
    cost.emplace_back(z_[cell], in.theta * in.omega[cell]);
  }
  // The objective is a column, so that a cutoff is its bound and costs stay free for `extreme`.
  model.add_row(0, 0, std::move(cost));
  model.columns[cost_].cost = 1;
}

LpRelaxation::Bound LpRelaxation::solve() {
  const LpSolver::Solution solution = lp_->minimise();
  if (solution.outcome == LpSolver::Outcome::infeasible) return {};
  Bound bound;
  bound.feasible = true;
  if (solution.outcome == LpSolver::Outcome::failed) {
    bound.objective = -kFree;
    return bound;
  }
  const std::vector<double> x = lp_->values();
  bound.objective = solution.objective;
  bound.prefill_max_s = x[tp_] * prefill_unit_;
  bound.decode_max_s = x[td_] * decode_unit_;
  return bound;
}

std::optional<double> LpRelaxation::extreme(std::size_t column, double sign) {
  lp_->clear_costs();
  lp_->set_cost(column, sign);
  const LpSolver::Solution solution = lp_->minimise();
  if (solution.outcome == LpSolver::Outcome::infeasible) return std::nullopt;
  if (solution.outcome == LpSolver::Outcome::failed) return sign > 0 ? 0.0 : kFree;
  return sign * solution.objective;
}

std::optional<LpRelaxation::StageTimeBounds> LpRelaxation::tighten_bounds(double cutoff) {
  lp_->set_bounds(cost_, -kFree, cutoff);
  StageTimeBounds w;
  const auto range = [&](std::size_t column, double unit, double link_s, Interval& interval) {
    const auto low = extreme(column, 1), high = low ? extreme(column, -1) : std::nullopt;
    if (!high) return false;
    // Margins well above the solver's tolerance: the range must never cut off the optimum.
    // Links of a fixed order are exact: the programme has no other row for them.
    interval.low = std::max(link_s, *low * unit * (1 - 1e-6));
    interval.high = std::max(interval.low, *high * unit * (1 + 1e-6));
    return true;
  };
  if (!range(tp_, prefill_unit_, prefill_link_s_, w.prefill_max_s)) return std::nullopt;
  if (!range(td_, decode_unit_, decode_link_s_, w.decode_max_s)) return std::nullopt;
  return w;
}

}  // namespace tessera::solver
