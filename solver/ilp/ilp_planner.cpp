#include "ilp/pair_search.h"
#include "tessera/solver/planner.h"

namespace tessera::solver {
namespace {

class IlpPlanner : public Planner {
 public:
  PlannerCard card() const override {
    return {"ilp",
            "Integer programme on COIN-OR CBC: exact, with order, partition, bitwidths and "
            "micro-batch sizes searched or fixed; returns a bound when it is stopped early",
            "SplitQuant Sec. IV, eqs. (3)-(16), in the prefix-and-counts form"};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (std::optional<Violation> violation = find_obvious_infeasibility(instance, request)) {
      PlanResult result;
      result.status = SolveStatus::infeasible;
      result.violation = std::move(violation);
      return result;
    }
    return PairSearch(instance, request).run();
  }
};

}  // namespace

std::unique_ptr<Planner> make_ilp_planner() { return std::make_unique<IlpPlanner>(); }

}  // namespace tessera::solver
