// The quality of replicas together. The objective is T + theta W, T the seconds of the slowest
// replica and W the omega of the worst. One pipeline has no worse one beside it: its best is found
// as ever. Of more, the search over splits gives the least T under a limit on omega, which holds
// for each. With t of one limit, no plan whose omega is above (best - t) / theta is better; that is
// the next limit, until no plan within it is better, or for long enough: what is left is the gap.

#include "replica_quality.h"

#include <algorithm>
#include <cmath>

#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

constexpr double kFinest = 1e-6;  ///< of the objective, where the options say no gap
constexpr int kMostLimits = 16;

/// "replicas: best of any number; ...", of which the last search knows its own part alone.
bool is_of_search(const std::string& note) { return note.rfind("replicas: best of ", 0) == 0; }

class QualityOfReplicas {
 public:
  QualityOfReplicas(const OpenProblem& problem, const PlanOptions& options,
                    const PlanReplicas& plan_within)
      : problem_(problem),
        options_(options),
        plan_within_(plan_within),
        theta_(problem.first.instance().theta),
        clock_(options),
        cutoff_(options.cutoff.value_or(kInfinity)) {}

  PlanOutcome run(Plan of_sums) {
    const PlanSummary& first = summary_of(of_sums);
    proven_ = first.status == PlanStatus::optimal;
    double bound = first.bound.value_or(-kInfinity);
    for (const std::string& text : first.notes) {
      if (is_of_search(text)) note_ = text;
    }
    if (first.objective < cutoff_) take(std::move(of_sums));
    search(problem_, Pipelines::one);
    double limit = kInfinity;
    for (int tried = 0; !stopped_by_; ++tried) {
      if (tried == kMostLimits) {
        proven_ = false;
        return finish(bound);
      }
      const std::optional<double> seconds = search(within(limit), Pipelines::several);
      if (!seconds) break;
      bound = std::max(bound, std::min(*seconds, worth_beating()));
      limit = (worth_beating() - *seconds) / theta_;
      if (limit <= 0) break;
    }
    return finish(stopped_by_ ? bound : worth_beating());
  }

 private:
  double worth_beating() const {
    return cutoff_ - std::max(options_.gap, kFinest) * std::fabs(cutoff_);
  }

  /// Takes the best of a problem where it is better; what none of it is below, or nothing where
  /// none is better or the search was stopped.
  std::optional<double> search(const OpenProblem& problem, Pipelines pipelines) {
    PlanOptions options = options_;
    options.on_incumbent = nullptr;
    options.cutoff = worth_beating();
    options.time_limit_s = clock_.left_s();
    PlanOutcome outcome = plan_within_(problem, options, pipelines);
    if (const auto* none = std::get_if<NoPlan>(&outcome)) {
      if (none->code != "infeasible") stop(named<PlanStop>(none->code));
      return std::nullopt;
    }
    Plan& plan = std::get<Plan>(outcome);
    const PlanSummary& summary = summary_of(plan);
    if (summary.status != PlanStatus::optimal) proven_ = false;
    if (clock_.late()) stop(PlanStop::time_limit);
    const double least = summary.bound.value_or(summary.objective);
    take(asked_for(std::move(plan)));
    return least;
  }

  void stop(std::optional<PlanStop> by) {
    proven_ = false;
    stopped_by_ = by;
  }

  OpenProblem within(double max_omega) const {
    Problem problem = problem_.first.problem();
    problem.theta = 0;
    if (max_omega < problem.max_omega.value_or(kInfinity)) problem.max_omega = max_omega;
    return {LoweredProblem(std::move(problem), problem_.prices), problem_.choices,
            problem_.kernel_sets, problem_.prices};
  }

  /// The plan as one of the problem that was asked: with theta, without a limit.
  Plan asked_for(Plan plan) const {
    const auto free = [&](PlanSummary& part) {
      part.objective += (theta_ - part.problem.instance().theta) * part.omega;
      Problem problem = part.problem.problem();
      problem.theta = problem_.first.problem().theta;
      problem.max_omega = problem_.first.problem().max_omega;
      part.problem = LoweredProblem(std::move(problem), problem_.prices);
      part.candidates.clear();
      set_facts(part, {false, std::nullopt, part.solve_s, {}, std::nullopt});
    };
    auto* several = std::get_if<ReplicatedPlan>(&plan);
    if (several == nullptr) {
      free(summary_of(plan));
      return plan;
    }
    for (PipelinePlan& replica : several->replicas) free(replica);
    const std::string planner = several->planner;
    std::vector<std::string> notes = std::move(several->notes);
    ReplicatedPlan joined =
        join_replicas(problem_.first.problem(), std::move(several->replicas), planner);
    joined.notes = std::move(notes);
    return joined;
  }

  void take(Plan plan) {
    const double objective = summary_of(plan).objective;
    if (objective >= cutoff_) return;
    cutoff_ = objective;
    best_ = std::move(plan);
    if (options_.on_incumbent) options_.on_incumbent({objective, std::nullopt});
  }

  PlanOutcome finish(double bound) {
    if (!best_) return why_none();
    PlanSummary& plan = summary_of(*best_);
    SearchFacts facts{proven_, std::nullopt, clock_.elapsed_s(), {}, stopped_by_};
    if (bound > -kInfinity)
      facts.bound = std::min(bound, plan.objective - 1e-9 * std::fabs(plan.objective));
    set_facts(plan, std::move(facts));
    std::erase_if(plan.notes, is_of_search);
    plan.notes.push_back(note_);
    return std::move(*best_);
  }

  /// Of a cutoff that no plan was found below.
  NoPlan why_none() const {
    if (!stopped_by_) return none_below(cutoff_);
    return {std::string(name_of(*stopped_by_)),
            "no plan below the cutoff was found before the search was stopped", "", std::nullopt};
  }

  const OpenProblem& problem_;
  const PlanOptions& options_;
  const PlanReplicas& plan_within_;
  const double theta_;
  const PlanningClock clock_;
  double cutoff_;
  std::optional<Plan> best_;
  bool proven_ = true;
  std::optional<PlanStop> stopped_by_;
  std::string note_;
};

}  // namespace

PlanOutcome share_quality(const OpenProblem& problem, const PlanOptions& options, Plan of_sums,
                          const PlanReplicas& plan_within) {
  return QualityOfReplicas(problem, options, plan_within).run(std::move(of_sums));
}

}  // namespace tessera::solver
