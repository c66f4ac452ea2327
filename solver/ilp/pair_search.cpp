#include "ilp/pair_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ilp/cbc.h"
#include "ilp/formulation.h"
#include "ilp/relaxation.h"
#include "src/exhausted.h"
#include "src/local_search.h"
#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

// Narrows the end-layer windows by linear programming: the least and the largest E_j of relaxed
// plans below the cutoff. Each window shrinks s_ij columns away, which is what branching costs.
// @return false when no plan is left.
bool narrow_windows(const PairProblem& problem, double cutoff, const Deadline& deadline,
                    FormulationWindows& windows) {
  const Formulation formulation(problem, windows);
  LinearModel model = formulation.model();
  std::vector<LinearModel::Term> cost;
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    if (model.columns[i].cost != 0) cost.emplace_back(i, model.columns[i].cost);
    model.columns[i].cost = 0;
  }
  model.add_row(-kFree, formulation.to_model(cutoff), std::move(cost));
  const auto late = [&] { return deadline.reached().has_value(); };
  LpSolver lp(model, late);
  for (std::size_t j = 0; j + 1 < problem.num_positions(); ++j) {
    const std::size_t column = formulation.end_layer_column(j);
    for (const double sign : {1.0, -1.0}) {
      lp.set_cost(column, sign);
      const LpSolver::Solution s = lp.minimise();
      lp.set_cost(column, 0);
      if (s.outcome == LpSolver::Outcome::infeasible) return false;
      if (s.outcome == LpSolver::Outcome::failed) continue;
      Window& w = windows.end_layer[j];
      if (sign > 0) w.low = std::max(w.low, std::ceil(s.objective - 1e-4));
      if (sign < 0) w.high = std::min(w.high, std::floor(-s.objective + 1e-4));
      if (w.low > w.high) return false;
      lp.set_bounds(column, w.low, w.high);
    }
  }
  for (std::size_t j = 1; j < problem.num_positions(); ++j) {
    windows.end_layer[j].low = std::max(windows.end_layer[j].low, windows.end_layer[j - 1].low);
  }
  for (std::size_t j = problem.num_positions() - 1; j > 0; --j) {
    windows.end_layer[j - 1].high =
        std::min(windows.end_layer[j - 1].high, windows.end_layer[j].high);
  }
  return true;
}

std::vector<std::size_t> devices_by_memory(const Instance& instance) {
  std::vector<std::size_t> devices;
  for (std::size_t g = 0; g < instance.groups.size(); ++g) {
    devices.insert(devices.end(), static_cast<std::size_t>(instance.groups[g].count), g);
  }
  std::stable_sort(devices.begin(), devices.end(), [&](std::size_t a, std::size_t b) {
    return instance.groups[a].usable_bytes > instance.groups[b].usable_bytes;
  });
  return devices;
}

}  // namespace

PairSearch::PairSearch(const Instance& instance, const PlanRequest& request)
    : instance_(instance), request_(request), deadline_(request) {}

PlanResult PairSearch::run() {
  list_pairs();
  bound_pairs();
  find_first_plans();
  solve_pairs();
  return finish();
}

void PairSearch::list_pairs() {
  const auto useful = useful_micro_batch_sizes(instance_);
  std::vector<std::int64_t> decodes = useful;
  if (request_.decode_micro_batch_size) {
    decodes = {*request_.decode_micro_batch_size};
  } else if (instance_.objective == Objective::paper) {
    const std::size_t stages = request_.order ? request_.order->size() : instance_.num_devices();
    decodes = {ceil_div(instance_.batch_size, static_cast<std::int64_t>(stages))};
    notes_.push_back(fmt::format(
        "objective 'paper' prices one decode micro-batch as a single step, so the decode "
        "micro-batch size is ceil(B / N) = {}, as published, not searched",
        decodes.front()));
  } else if (request_.prefill_micro_batch_size) {
    // The smallest size of its count may lie below the prefill size that was asked for.
    decodes.push_back(*request_.prefill_micro_batch_size);
    std::sort(decodes.begin(), decodes.end());
    decodes.erase(std::unique(decodes.begin(), decodes.end()), decodes.end());
  }
  for (const std::int64_t decode : decodes) {
    if (request_.prefill_micro_batch_size) {
      const std::int64_t prefill = *request_.prefill_micro_batch_size;
      if (prefill <= decode || request_.decode_micro_batch_size) {
        pairs_.push_back({prefill, decode, -kFree, false});
      }
      continue;
    }
    for (const std::int64_t prefill : useful) {
      if (prefill <= decode) pairs_.push_back({prefill, decode, -kFree, false});
    }
  }
}

void PairSearch::bound_pairs() {
  for (Pair& pair : pairs_) {
    if (stopped()) break;
    const PairProblem problem(instance_, request_.order, pair.prefill, pair.decode);
    const Relaxation::Bound bound =
        Relaxation(problem, [this] { return deadline_.reached().has_value(); }).solve();
    pair.bound = bound.feasible ? bound.objective - 1e-8 * std::fabs(bound.objective) : kFree;
  }
  std::stable_sort(pairs_.begin(), pairs_.end(),
                   [](const Pair& a, const Pair& b) { return a.bound < b.bound; });
}

// The first incumbent decides how much the exact search can prune, so the best few pairs get a
// longer walk each.
void PairSearch::find_first_plans() {
  constexpr std::size_t kPairs = 4;
  const auto layers = static_cast<std::int64_t>(instance_.num_layers());
  for (std::size_t i = 0; i < std::min(kPairs, pairs_.size()) && !stopped(); ++i) {
    if (pairs_[i].bound < cutoff()) improve_locally(pairs_[i], 2000 + 1000 * layers);
  }
}

void PairSearch::improve_locally(const Pair& pair, std::int64_t moves) {
  LocalSearchSetting setting;
  setting.free_order = !request_.order;
  setting.prefill_micro_batch_size = pair.prefill;
  setting.decode_micro_batch_size = pair.decode;
  setting.num_moves = moves;
  setting.seed = request_.seed;
  setting.order = request_.order ? *request_.order : devices_by_memory(instance_);
  if (auto found = local_search(instance_, setting, deadline_)) offer(*std::move(found));
  if (best_ && best_->order.size() == setting.order.size()) {
    ++setting.seed;
    if (auto found = local_search(instance_, setting, deadline_, &*best_)) {
      offer(*std::move(found));
    }
  }
}

void PairSearch::solve_pairs() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (stopped()) return;
    if (pairs_[i].bound >= cutoff()) {
      // Sorted by bound: the others cannot hold a better plan either.
      for (std::size_t k = i; k < pairs_.size(); ++k) pairs_[k].solved = true;
      return;
    }
    solve_pair(pairs_[i]);
  }
}

void PairSearch::solve_pair(Pair& pair) {
  const auto layers = static_cast<std::int64_t>(instance_.num_layers());
  improve_locally(pair, 1000 + 300 * layers);
  const double limit = cutoff();
  const auto excluded = [&] {
    pair.bound = std::max(pair.bound, limit);
    pair.solved = true;
  };
  const PairProblem problem(instance_, request_.order, pair.prefill, pair.decode);
  Relaxation relaxation(problem, [this] { return deadline_.reached().has_value(); });
  const Relaxation::Bound at = relaxation.solve();
  const auto ranges = at.feasible ? relaxation.windows(limit) : std::nullopt;
  if (!ranges) return excluded();
  FormulationWindows windows;
  windows.prefill_max_s = ranges->prefill_max_s;
  windows.decode_max_s = ranges->decode_max_s;
  windows.objective_scale = limit < kFree ? limit : std::max(1e-9, at.objective);
  const auto ends = end_layer_windows(problem, windows.prefill_max_s, windows.decode_max_s);
  if (!ends) return excluded();
  windows.end_layer = *ends;
  if (limit < kFree && !narrow_windows(problem, limit, deadline_, windows)) return excluded();

  if (stopped()) return;
  const Formulation formulation(problem, windows);
  MipLimits limits;
  limits.time_limit_s = deadline_.left_s();
  limits.relative_gap = request_.gap;
  if (limit < kFree) limits.cutoff = formulation.to_model(limit);
  limits.should_stop = [&] { return deadline_.reached().has_value(); };
  limits.on_solution = [&](const std::vector<double>& x, double cbc_bound) {
    pair.bound = std::max(pair.bound, std::min(formulation.from_model(cbc_bound), limit));
    if (auto plan = formulation.decode(x)) offer(*std::move(plan));
  };
  const MipResult mip = solve_mip(formulation.model(), limits);
  const double proven = mip.bound >= kFree ? kFree : formulation.from_model(mip.bound);
  pair.bound = std::max(pair.bound, std::min(proven, limit));
  pair.solved = mip.finished;
  if (!mip.x) return;
  // A solution that does not survive exact arithmetic leaves the pair undecided.
  const auto plan = formulation.decode(*mip.x);
  if (!plan || !offer(*plan)) gave_up_ = true;
}

bool PairSearch::offer(Candidate candidate) {
  if (find_violation(instance_, candidate)) return false;
  const double objective = evaluate(instance_, candidate).objective;
  if (objective >= (best_ ? best_objective_ : request_.cutoff.value_or(kFree))) return true;
  best_ = std::move(candidate);
  best_objective_ = objective;
  if (request_.on_incumbent) request_.on_incumbent({*best_, objective, bound()});
  return true;
}

double PairSearch::cutoff() const {
  if (!best_) return request_.cutoff.value_or(kFree);
  return best_objective_ -
         std::max(kImprovement, request_.gap) * std::max(1e-12, std::fabs(best_objective_));
}

double PairSearch::bound() const {
  double least = kFree;
  for (const Pair& pair : pairs_) least = std::min(least, pair.bound);
  return std::min(least, best_ ? best_objective_ : request_.cutoff.value_or(kFree));
}

bool PairSearch::stopped() {
  if (!stopped_by_) stopped_by_ = deadline_.reached();
  return stopped_by_.has_value();
}

PlanResult PairSearch::finish() {
  PlanResult result;
  result.notes = std::move(notes_);
  const bool all =
      std::all_of(pairs_.begin(), pairs_.end(), [](const Pair& p) { return p.solved; });
  const double least = bound();
  if (std::isfinite(least)) result.bound = least;
  if (best_) {
    result.candidate = best_;
    result.objective = best_objective_;
    const double tolerance = std::max(kProofTolerance, request_.gap * (1 + kProofTolerance));
    const bool proven =
        all && !gave_up_ &&
        least >= best_objective_ - tolerance * std::max(1e-12, std::fabs(best_objective_));
    result.status = proven ? SolveStatus::optimal : SolveStatus::feasible;
    if (!proven && stopped()) result.stopped_by = stopped_by_;
  } else if (all && !gave_up_) {
    result.status = SolveStatus::infeasible;
    result.violation = explain_exhausted(instance_, request_, !pairs_.empty(), deadline_.left_s(),
                                         [](const Instance& in, const PlanRequest& request) {
                                           return PairSearch(in, request).run();
                                         });
  } else {
    result.status = stopped() ? *stopped_by_ : SolveStatus::time_limit;
    result.stopped_by = stopped_by_;
  }
  result.solve_s = deadline_.elapsed_s();
  return result;
}

}  // namespace tessera::solver
