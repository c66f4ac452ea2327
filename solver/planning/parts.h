#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/core/error.h"
#include "tessera/solver/planning/planning.h"

/// The layers of `plan`, each around the next: replicas, open choices, a chain of planners.
namespace tessera::solver {

/// A limit by the wall clock over several solves.
class PlanningClock {
 public:
  explicit PlanningClock(const PlanOptions& options)
      : start_(std::chrono::steady_clock::now()),
        limit_s_(options.time_limit_s.value_or(kDefaultTimeLimitS)) {}

  double limit_s() const { return limit_s_; }
  double elapsed_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double left_s() const { return std::max(0.0, limit_s_ - elapsed_s()); }
  bool late() const { return elapsed_s() >= limit_s_; }

 private:
  std::chrono::steady_clock::time_point start_;
  double limit_s_;
};

/// Plans one problem without open choices.
using PlanOne = std::function<PlanOutcome(const LoweredProblem&, const PlanOptions&)>;
/// Plans one problem, choices and all.
using PlanPart = std::function<PlanOutcome(const OpenProblem&, const PlanOptions&)>;

/// The chain: a planner, then heuristics that improve its plan.
PlanOutcome plan_by_chain(const std::vector<NamedPlanner>& chain, const LoweredProblem& problem,
                          const PlanOptions& options);

/// Why no time can be said of a problem; absent where it can.
std::optional<Error> why_not_priced(const LoweredProblem& problem);

/// Every way to settle the open choices; the best plan with what came of the others.
PlanOutcome plan_choices(const OpenProblem& problem, const PlanOptions& options,
                         const PlanOne& plan_one);

/// Every way to split the cluster into as many replicas as the options say, with the requests
/// shared out so that the worst replica's objective is least.
/// @param proves whether the chain proves its plans.
PlanOutcome plan_replicas(const OpenProblem& problem, const PlanOptions& options, bool proves,
                          const PlanPart& plan_part);

/// The problem for whoever runs its plans.
OpenProblem without_runtime(const OpenProblem& problem);

/// What the problem's runtime can launch: the free optimum where it can be launched, else the best
/// plan that can, with a note of what that costs. Without a runtime, what `plan_part` says.
PlanOutcome plan_for_runtime(const OpenProblem& problem, const PlanOptions& options,
                             const PlanPart& plan_part);

/// "no plan has an objective below the cutoff of 3 s"
NoPlan none_below(double cutoff);

/// What a search over several problems knows of the plan that it puts together.
struct SearchFacts {
  bool proven = false;
  std::optional<double> bound;
  double solve_s = 0;
  std::vector<PlanCandidate> candidates;
  std::optional<PlanStop> stopped_by;  ///< any of its solves
};
void set_facts(PlanSummary& plan, SearchFacts facts);

void add_notes(Plan& plan, const std::vector<std::string>& notes);

}  // namespace tessera::solver
