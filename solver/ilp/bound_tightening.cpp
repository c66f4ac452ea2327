#include "bound_tightening.h"

#include <algorithm>
#include <cmath>

#include "formulation.h"
#include "lp_relaxation.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {
namespace {

// Bounds on E_j where position j holds at most most[j] layers; absent when one is empty.
std::optional<std::vector<Interval>> end_layer_bounds(const Subproblem& problem,
                                                      const std::vector<double>& most) {
  const Instance& in = problem.instance;
  const std::size_t n = problem.num_positions();
  const auto layers = static_cast<double>(in.num_layers());
  // Stages that hold at least one layer; with a free order only the first two are sure to exist.
  const auto least = [&](std::size_t j) {
    if (!in.allow_empty_stage || j == 0) return 1.0;
    return problem.order && j + 1 == n ? 1.0 : 0.0;
  };
  std::vector<Interval> bounds(n);
  double low = 0, high = 0;
  for (std::size_t j = 0; j < n; ++j) {
    low += least(j);
    high = std::min(layers, high + most[j]);
    bounds[j] = {low, high};
  }
  double after_most = 0, after_least = 0;
  for (std::size_t j = n; j-- > 0;) {
    bounds[j].low = std::max(bounds[j].low, layers - after_most);
    bounds[j].high = std::min(bounds[j].high, layers - after_least);
    if (bounds[j].low > bounds[j].high) return std::nullopt;
    after_most += most[j];
    after_least += least(j);
  }
  return bounds;
}

// Bound tightening of E_j: its least and largest values in the LP relaxation of the programme below
// the cutoff. Every value that goes takes s_ij columns with it, and these are what CBC branches on.
// @return false when no plan is left.
bool tighten_end_layers(const Subproblem& problem, double cutoff,
                        const std::function<bool()>& should_stop, VariableBounds& bounds) {
  const Formulation formulation(problem, bounds);
  LinearModel model = formulation.model();
  std::vector<LinearModel::Term> cost;
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    if (model.columns[i].cost != 0) cost.emplace_back(i, model.columns[i].cost);
    model.columns[i].cost = 0;
  }
  model.add_row(-kFree, formulation.to_model(cutoff), std::move(cost));
  LpSolver lp(model, should_stop);
  for (std::size_t j = 0; j + 1 < problem.num_positions(); ++j) {
    const std::size_t column = formulation.end_layer_column(j);
    for (const double sign : {1.0, -1.0}) {
      lp.set_cost(column, sign);
      const LpSolver::Solution s = lp.minimise();
      lp.set_cost(column, 0);
      if (s.outcome == LpSolver::Outcome::infeasible) return false;
      if (s.outcome == LpSolver::Outcome::failed) continue;
      Interval& w = bounds.end_layer[j];
      if (sign > 0) w.low = std::max(w.low, std::ceil(s.objective - 1e-4));
      if (sign < 0) w.high = std::min(w.high, std::floor(-s.objective + 1e-4));
      if (w.low > w.high) return false;
      lp.set_bounds(column, w.low, w.high);
    }
  }
  for (std::size_t j = 1; j < problem.num_positions(); ++j) {
    bounds.end_layer[j].low = std::max(bounds.end_layer[j].low, bounds.end_layer[j - 1].low);
  }
  for (std::size_t j = problem.num_positions() - 1; j > 0; --j) {
    bounds.end_layer[j - 1].high = std::min(bounds.end_layer[j - 1].high, bounds.end_layer[j].high);
  }
  return true;
}

}  // namespace

double most_layers(const Subproblem& problem, std::size_t j, std::size_t group,
                   const Interval& prefill_max_s, const Interval& decode_max_s) {
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
  double fixed = problem.fixed_bytes(group, place_at(j, n));
  if (!problem.order)
    fixed = std::min(fixed, problem.fixed_bytes(group, stage_place(j == 0, true)));
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

std::optional<VariableBounds> base_bounds(const Subproblem& problem, double objective_scale) {
  const Instance& in = problem.instance;
  VariableBounds bounds;
  bounds.objective_scale = objective_scale;
  const auto ends = end_layer_bounds(
      problem, std::vector<double>(problem.num_positions(), static_cast<double>(in.num_layers())));
  if (!ends) return std::nullopt;
  bounds.end_layer = *ends;
  // The programme has no row for the links of a fixed order: they are constants.
  bounds.prefill_max_s = {problem.slowest_link_s(problem.prefill), kFree};
  bounds.decode_max_s = {problem.slowest_link_s(problem.decode), kFree};
  return bounds;
}

std::optional<VariableBounds> tightened_bounds(const Subproblem& problem, double cutoff,
                                               double objective_scale,
                                               const std::function<bool()>& should_stop) {
  LpRelaxation relaxation(problem, should_stop);
  if (!relaxation.solve().feasible) return std::nullopt;
  const auto ranges = relaxation.tighten_bounds(cutoff);
  if (!ranges) return std::nullopt;
  VariableBounds bounds;
  bounds.prefill_max_s = ranges->prefill_max_s;
  bounds.decode_max_s = ranges->decode_max_s;
  bounds.objective_scale = objective_scale;
  const Instance& in = problem.instance;
  std::vector<double> most(problem.num_positions(), 0);
  for (std::size_t j = 0; j < most.size(); ++j) {
    for (std::size_t g = 0; g < in.groups.size(); ++g) {
      if (problem.order && (*problem.order)[j] != g) continue;
      most[j] =
          std::max(most[j], most_layers(problem, j, g, bounds.prefill_max_s, bounds.decode_max_s));
    }
  }
  const auto ends = end_layer_bounds(problem, most);
  if (!ends) return std::nullopt;
  bounds.end_layer = *ends;
  if (cutoff < kFree && !tighten_end_layers(problem, cutoff, should_stop, bounds))
    return std::nullopt;
  return bounds;
}

}  // namespace tessera::solver
