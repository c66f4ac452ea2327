#include "ilp_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bound_tightening.h"
#include "formulation.h"
#include "lp_relaxation.h"
#include "model_file.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/mip/cbc.h"
#include "tessera/solver/moves/local_search.h"

namespace tessera::solver {

IlpSearch::IlpSearch(const Instance& instance, const PlanRequest& request, bool explains)
    : instance_(instance), request_(request), explains_(explains), deadline_(request) {}

PlanResult IlpSearch::run() {
  start();
  solve_single_stages();
  solve_pairs();
  return finish();
}

void IlpSearch::start() {
  list_pairs();
  if (!paper_form()) bound_pairs();
  if (request_.start) offer(*request_.start);
  find_first_plans();
}

std::optional<Violation> IlpSearch::write(const std::string& path) {
  if (paper_form()) {
    write_paper(path);
    return std::nullopt;
  }
  start();
  const Subproblem problem(instance_, request_.order, *request_.prefill_micro_batch_size,
                           *request_.decode_micro_batch_size);
  // A little above the best plan, so that the file still holds it.
  const double limit =
      best_ ? best_objective_ + kProofTolerance * std::fabs(best_objective_) : kFree;
  constexpr double kSeconds = 1000;
  const auto late = [this] { return deadline_.reached().has_value(); };
  const auto bounds = base_form() ? base_bounds(problem, kSeconds)
                                  : tightened_bounds(problem, limit, kSeconds, late);
  if (!bounds) return explain();
  write_model_file(Formulation(problem, *bounds, true).model(), path);
  return std::nullopt;
}

void IlpSearch::list_pairs() {
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

void IlpSearch::bound_pairs() {
  for (Pair& pair : pairs_) {
    if (stopped()) break;
    const Subproblem problem(instance_, request_.order, pair.prefill, pair.decode);
    const LpRelaxation::Bound bound =
        LpRelaxation(problem, [this] { return deadline_.reached().has_value(); }).solve();
    pair.bound = bound.feasible ? bound.objective - 1e-8 * std::fabs(bound.objective) : kFree;
  }
  std::stable_sort(pairs_.begin(), pairs_.end(),
                   [](const Pair& a, const Pair& b) { return a.bound < b.bound; });
}

// Primal heuristic: the first incumbent decides how much can be pruned, so the pairs of lowest
// bound get a longer local search each.
void IlpSearch::find_first_plans() {
  if (base_form() || paper_form()) return;
  constexpr std::size_t kPairs = 4;
  const auto layers = static_cast<std::int64_t>(instance_.num_layers());
  for (std::size_t i = 0; i < std::min(kPairs, pairs_.size()) && !stopped(); ++i) {
    if (pairs_[i].bound < cutoff()) improve_locally(pairs_[i], 2000 + 1000 * layers);
  }
}

void IlpSearch::improve_locally(const Pair& pair, std::int64_t moves) {
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

// The programme with free orders has a first and a last stage; one that is both is a programme of
// its own, a small one, for each group.
void IlpSearch::solve_single_stages() {
  const bool free = !paper_form() && !request_.order && instance_.num_devices() > 1;
  if (!free || instance_.least_stages() > 1 || pairs_.empty()) return;
  for (std::size_t g = 0; g < instance_.groups.size() && !stopped(); ++g) {
    PlanRequest request = request_;
    request.order = {g};
    request.start.reset();
    request.on_incumbent = nullptr;
    request.time_limit_s = deadline_.left_s();
    if (best_) request.cutoff = best_objective_;
    if (instance_.objective == Objective::paper) {
      request.decode_micro_batch_size = pairs_.front().decode;
    }
    PlanResult result = IlpSearch(instance_, request, false).run();
    if (result.stopped_by) single_stage_bound_ = std::min(single_stage_bound_, -kFree);
    if (result.bound) single_stage_bound_ = std::min(single_stage_bound_, *result.bound);
    if (result.candidate && !offer(*std::move(result.candidate))) gave_up_ = true;
  }
}

void IlpSearch::solve_pairs() {
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

void IlpSearch::solve_pair(Pair& pair) {
  if (paper_form()) return solve_paper_pair(pair);
  const auto layers = static_cast<std::int64_t>(instance_.num_layers());
  if (!base_form()) improve_locally(pair, 1000 + 300 * layers);
  const double limit = cutoff();
  const double scale = best_ ? best_objective_ : std::max(1e-9, pair.bound);
  const Subproblem problem(instance_, request_.order, pair.prefill, pair.decode);
  const auto late = [this] { return deadline_.reached().has_value(); };
  const auto bounds =
      base_form() ? base_bounds(problem, scale) : tightened_bounds(problem, limit, scale, late);
  if (stopped()) return;
  if (!bounds) {
    pair.bound = std::max(pair.bound, limit);
    pair.solved = true;
    return;
  }
  const Formulation formulation(problem, *bounds);
  MipLimits limits;
  limits.time_limit_s = deadline_.left_s();
  limits.relative_gap = request_.gap;
  if (limit < kFree) limits.cutoff = formulation.to_model(limit);
  if (base_form() && is_of(pair)) {
    // A cutoff below the plan itself would refuse it as a start.
    limits.start = formulation.encode(*best_);
    if (limits.start)
      limits.cutoff = formulation.to_model(best_objective_ + best_objective_ - limit);
  }
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

bool IlpSearch::is_of(const Pair& pair) const {
  return best_ && best_->prefill_micro_batch_size == pair.prefill &&
         best_->decode_micro_batch_size == pair.decode;
}

bool IlpSearch::offer(Candidate candidate) {
  if (find_violation(instance_, candidate)) return false;
  const double objective = evaluate(instance_, candidate).objective;
  if (objective >= (best_ ? best_objective_ : request_.cutoff.value_or(kFree))) return true;
  best_ = std::move(candidate);
  best_objective_ = objective;
  if (request_.on_incumbent) request_.on_incumbent({*best_, objective, bound()});
  return true;
}

double IlpSearch::cutoff() const {
  if (!best_) return request_.cutoff.value_or(kFree);
  return best_objective_ -
         std::max(kImprovement, request_.gap) * std::max(1e-12, std::fabs(best_objective_));
}

double IlpSearch::bound() const {
  double least = single_stage_bound_;
  for (const Pair& pair : pairs_) least = std::min(least, pair.bound);
  return std::min(least, best_ ? best_objective_ : request_.cutoff.value_or(kFree));
}

bool IlpSearch::stopped() {
  if (!stopped_by_) stopped_by_ = deadline_.reached();
  return stopped_by_.has_value();
}

Violation IlpSearch::explain() const {
  return explain_exhausted(instance_, request_, !pairs_.empty(), deadline_.left_s(),
                           [](const Instance& in, PlanRequest request) {
                             request.ilp_form = IlpForm::tightened;  // the fastest says the same
                             return IlpSearch(in, request, false).run();
                           });
}

PlanResult IlpSearch::finish() {
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
    if (explains_) result.violation = explain();
  } else {
    result.status = stopped() ? *stopped_by_ : SolveStatus::time_limit;
    result.stopped_by = stopped_by_;
  }
  result.solve_s = deadline_.elapsed_s();
  return result;
}

}  // namespace tessera::solver
