#include "box_solver.h"

#include <algorithm>
#include <cmath>

#include "branching.h"

namespace tessera::solver::exact {
namespace {

constexpr std::size_t kRootSteps = 14, kSteps = 4, kIncumbentSteps = 8, kQualitySteps = 10;
// Cuts handed on to children, the latest.
constexpr std::size_t kMostCuts = 40;
constexpr double kLittleGain = 0.05, kTowardsModel = 0.6;
// Label setting over this few options takes about as long as bounding two more boxes.
constexpr std::size_t kFewOptions = 1500, kFewLabels = 20000;
constexpr std::size_t kManyLabels = 200000, kMostLabels = 4000000;

}  // namespace

BoxOutcome BoxSolver::solve(const OpenBox& open, double cutoff, double tolerance,
                            const std::function<bool()>& should_stop) {
  cutoff_ = cutoff;
  tolerance_ = tolerance;
  should_stop_ = should_stop;
  better_.reset();
  prepare(open);
  BoxOutcome outcome;
  const bool root = open.options == nullptr;
  if (!empty_ && root && space_.has_omega_limit()) empty_ = misses_floor();
  if (!empty_) maximise_bound(root ? kRootSteps : kSteps);
  if (!empty_ && space_.has_omega_limit() && cutoff_ == kInfinity) seek_quality(best_at_, 40);
  if (!empty_ && best_bound_ < cutoff_ && root) dive();
  if (!empty_ && best_bound_ < cutoff_) {
    const Weights weights = weights_of(space_, *pair_, best_at_, box_);
    search_.find(task_, weights);
    search_.fix_by_reduced_cost(cutoff_ - weights.constant, options_);
    empty_ = options_.size() == 0 || !tighten_bounds(space_, *pair_, options_, box_);
  }
  if (!empty_ && best_bound_ < cutoff_) branch(outcome);
  outcome.better = std::move(better_);
  outcome.bound = empty_ ? cutoff_ : std::max(best_bound_, open.bound);
  return outcome;
}

void BoxSolver::prepare(const OpenBox& open) {
  pair_index_ = open.pair;
  pair_ = &space_.pairs()[open.pair];
  box_ = open.box;
  best_bound_ = open.bound;
  best_at_ = open.multipliers;
  cuts_ = open.cuts ? *open.cuts : std::vector<Cut>{};
  options_ = open.options ? narrowed(*open.options, box_)
                          : all_options(space_, *pair_, table_, box_, fluid_[open.pair], cutoff_);
  empty_ = !tighten_bounds(space_, *pair_, options_, box_);
  if (empty_) return;
  const bool links_matter = !space_.order() && (pair_->slowest_prefill_link_s > box_.prefill_low ||
                                                pair_->slowest_decode_link_s > box_.decode_low);
  const Graph* graph = links_matter && graphs_.linked ? &*graphs_.linked : &*graphs_.plain;
  links_unknown_ = links_matter && !graph->knows_links();
  if (graph != open.graph) {
    options_.first_node.clear();
    options_.end_node.clear();
  }
  task_ = {pair_, graph, box_, &options_};
  // Where the box is thin its end is exact and an average can only be less.
  if (box_.prefill_low == box_.prefill_high) {
    std::fill(best_at_.prefill.begin(), best_at_.prefill.end(), 0);
  }
  if (box_.decode_low == box_.decode_high) {
    std::fill(best_at_.decode.begin(), best_at_.decode.end(), 0);
  }
}

void BoxSolver::offer(Path path) {
  if (!path.meets_floor || !(path.objective < cutoff_)) return;
  cutoff_ = path.objective - tolerance_ * std::fabs(path.objective);
  better_ = std::move(path);
}

// Primal heuristic. A shortest path under multipliers balances the stages only on average. Limits
// on (Tp, Td) a little above the times that the bound pays for balance them one by one.
void BoxSolver::dive() {
  const Box whole = box_;
  const Weights w = weights_of(space_, *pair_, best_at_, box_);
  const Paid paid = paid_times(*pair_, box_, best_at_, w, best_path_);
  Multipliers at = best_at_;
  std::fill(at.prefill.begin(), at.prefill.end(), 0);
  std::fill(at.decode.begin(), at.decode.end(), 0);
  for (const double slack : {0.01, 0.03, 0.06, 0.1, 0.16, 0.25, 0.4}) {
    if (should_stop_()) break;
    const auto above = [&](double time, double low, double high) {
      return std::clamp(std::max(time, low) * (1 + slack), low, high);
    };
    task_.box.prefill_high = above(paid.prefill_s, whole.prefill_low, whole.prefill_high);
    task_.box.decode_high = above(paid.decode_s, whole.decode_low, whole.decode_high);
    const OptionSet inside = narrowed(options_, task_.box);
    task_.options = &inside;
    seek_quality(at, space_.has_omega_limit() ? kQualitySteps : 1);
  }
  task_.options = &options_;
  task_.box = whole;
}

// Maximises the Lagrangian dual by Kelley's cutting planes. Each query lies between the best point
// and the model's maximum (in-out stabilisation), because the maxima alone jump to and fro. Stops
// when the model says that little is left to gain.
void BoxSolver::maximise_bound(std::size_t max_steps) {
  const double scale = cutoff_ < kInfinity ? std::fabs(cutoff_) : std::fabs(best_bound_);
  CutModel model(space_, *pair_, box_, std::max(scale, 1e-9));
  for (const Cut& cut : cuts_) model.add(cut);
  Multipliers query = best_at_;
  double best = -kInfinity;
  for (std::size_t i = 0; i < max_steps && !should_stop_(); ++i) {
    const Weights weights = weights_of(space_, *pair_, query, box_);
    const double weight = search_.find(task_, weights);
    if (weight == kInfinity) {
      empty_ = true;
      return;
    }
    const double value = weight + weights.constant;
    Path path = search_.trace();
    cuts_.push_back(cut_of(path));
    model.add(cuts_.back());
    offer(path);
    if (value > best) {
      best = value;
      best_at_ = query;
      best_path_ = std::move(path);
    }
    best_bound_ = std::max(best_bound_, best);
    if (best_bound_ >= cutoff_) return;
    const double nu_step = omega_price_scale(space_, std::max(scale, 1e-9));
    const CutModel::Maximum maximum = model.maximise(2 * best_at_.nu + nu_step);
    const double left = maximum.value - best, wanted = cutoff_ - best;
    if (left < kLittleGain * std::min(wanted, std::fabs(best))) return;
    query = model.between(best_at_, maximum.at, kTowardsModel);
  }
}

Cut BoxSolver::cut_of(const Path& path) const {
  Cut cut{usage_of(space_, path), 0, 0};
  for (const PathStage& stage : path.stages) {
    cut.prefill_max = std::max(cut.prefill_max, stage.prefill_s);
    cut.decode_max = std::max(cut.decode_max, stage.decode_s);
  }
  return cut;
}

// Primal heuristic. With a quality floor a shortest path need not be a plan: raises the multiplier
// of omega until it is one, then bisects the multiplier.
void BoxSolver::seek_quality(Multipliers at, std::size_t max_steps) {
  double low = 0, high = kInfinity;
  double step = std::max(
      0.1 * at.nu, 1e-3 * std::fabs(best_bound_) / std::max(1e-9, std::fabs(space_.omega_limit())));
  for (std::size_t i = 0; i < max_steps && !should_stop_(); ++i) {
    if (search_.find(task_, weights_of(space_, *pair_, at, box_)) == kInfinity) return;
    Path path = search_.trace();
    (path.meets_floor ? high : low) = at.nu;
    offer(std::move(path));
    if (at.nu == 0 && high == 0) return;
    at.nu = high == kInfinity ? at.nu + step
            : low == 0        ? std::max(0.0, at.nu - step)
                              : 0.5 * (low + high);
    step *= 3;
  }
}

// Whether even the pipeline of least omega breaks the quality floor.
bool BoxSolver::misses_floor() {
  const Weights omega = omega_alone();
  const double least = search_.find(task_, omega);
  return least > space_.omega_limit() + 1e-12 * std::fabs(space_.omega_limit());
}

Weights BoxSolver::omega_alone() const {
  Weights omega;
  omega.prefill.assign(space_.kinds().size(), 0);
  omega.decode = omega.prefill;
  omega.omega = 1;
  return omega;
}

std::optional<Path> BoxSolver::find_incumbent(const OpenBox& open, double cutoff,
                                              const std::function<bool()>& should_stop) {
  cutoff_ = cutoff;
  tolerance_ = 0;
  should_stop_ = should_stop;
  better_.reset();
  prepare(open);
  if (empty_) return std::nullopt;
  cutoff_ = kInfinity;  // a plan above the cutoff is better than none
  maximise_bound(kIncumbentSteps);
  if (!empty_ && space_.has_omega_limit() && !better_) seek_quality(best_at_, 40);
  if (!empty_) dive();
  return std::move(better_);
}

bool BoxSolver::run_label_setting(std::size_t max_labels) {
  if (links_unknown_ && max_labels < kMostLabels) return false;
  std::vector<double> omega_to_end;
  task_.box = box_;
  if (space_.has_omega_limit()) {
    search_.find(task_, omega_alone());
    omega_to_end = search_.to_end();
  }
  const Weights weights = weights_of(space_, *pair_, best_at_, box_);
  search_.find(task_, weights);
  LabelSetting labels(space_, table_, search_, task_, weights, omega_to_end);
  LabelSetting::Result result = labels.run(cutoff_, max_labels, should_stop_);
  if (result.better) offer(*std::move(result.better));
  // Pipelines whose links are only bounded may be better than their price here.
  if (!result.complete || links_unknown_) return false;
  best_bound_ = std::max(best_bound_, cutoff_);
  return true;
}

OpenBox BoxSolver::child() const {
  OpenBox child;
  child.pair = pair_index_;
  child.box = box_;
  child.multipliers = best_at_;
  child.graph = task_.graph;
  child.bound = best_bound_;
  return child;
}

void BoxSolver::branch(BoxOutcome& outcome) {
  const Thin thin = thin_sides(*pair_, box_);
  if (thin.prefill && thin.decode) {
    outcome.unresolved = !run_label_setting(kMostLabels);
    return;
  }
  if (options_.size() <= kFewOptions && run_label_setting(kFewLabels)) return;
  const Branch branch =
      choose_branch(*pair_, box_, best_at_, weights_of(space_, *pair_, best_at_, box_), best_path_);
  const double open_gap = cutoff_ - best_bound_;
  if (cutoff_ < kInfinity && std::max(branch.prefill_gap, branch.decode_gap) < 0.2 * open_gap &&
      run_label_setting(kManyLabels)) {
    return;
  }
  const auto options = std::make_shared<const OptionSet>(std::move(options_));
  if (cuts_.size() > kMostCuts) {
    cuts_.erase(cuts_.begin(), cuts_.end() - static_cast<std::ptrdiff_t>(kMostCuts));
  }
  const auto cuts = std::make_shared<const std::vector<Cut>>(std::move(cuts_));
  for (const Box& half : {lower_half(box_, branch), upper_half(box_, branch)}) {
    OpenBox open = child();
    open.box = half;
    open.cuts = cuts;
    open.options = options;
    outcome.children.push_back(std::move(open));
  }
}

}  // namespace tessera::solver::exact
