// A heuristic as a planner: it improves every start, and the best plan is kept.

#include <limits>

#include "tessera/solver/heuristic/heuristic_starts.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/instance/deadline.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {
namespace {

class HeuristicPlanner final : public Planner {
 public:
  HeuristicPlanner(std::unique_ptr<Heuristic> heuristic, StartSet starts)
      : heuristic_(std::move(heuristic)), starts_(starts) {}

  Card card() const override {
    const Card card = heuristic_->card();
    return {card.name, card.doc, card.source};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    const Deadline deadline(request);
    Starts starts(instance, request, starts_);
    PlanResult result;
    while (auto start = starts.next()) {
      PlanRequest left = starts.request();
      left.on_incumbent = [&](const Incumbent& incumbent) { offer(incumbent, request, result); };
      PlanSearch search(instance, *std::move(start), left);
      offer({search.current(), search.objective(), -kInfinity}, request, result);
      heuristic_->improve(search);
    }
    result.solve_s = deadline.elapsed_s();
    result.stopped_by = starts.stopped_by();
    if (result.candidate) {
      result.status = SolveStatus::feasible;
    } else if (result.stopped_by) {
      result.status = *result.stopped_by;
    } else {
      result.violation = starts.violation();
    }
    return result;
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  static void offer(const Incumbent& incumbent, const PlanRequest& request, PlanResult& result) {
    if (result.candidate && incumbent.objective >= result.objective) return;
    result.candidate = incumbent.candidate;
    result.objective = incumbent.objective;
    if (request.on_incumbent) request.on_incumbent(incumbent);
  }

  std::unique_ptr<Heuristic> heuristic_;
  StartSet starts_;
};

}  // namespace

std::unique_ptr<Planner> make_heuristic_planner(std::unique_ptr<Heuristic> heuristic,
                                                StartSet starts) {
  return std::make_unique<HeuristicPlanner>(std::move(heuristic), starts);
}

}  // namespace tessera::solver
