#include "tessera/solver/exact/exact_planner.h"

#include "exact_search.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {
namespace {

class ExactPlanner : public Planner {
 public:
  Card card() const override {
    return {"exact",
            "Branch and bound on the slowest stage times over shortest paths: proves the optimum "
            "of the whole search of order, partition, bitwidths and micro-batch sizes, or bounds "
            "it when stopped early",
            "the problem of SplitQuant Sec. IV, eqs. (3)-(16); the method is our own"};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (!instance.rows.empty()) {
      throw Error(ErrorCode::unsupported,
                  "planner 'exact' cannot keep side constraints (" +
                      quote(instance.rows.front().name) +
                      (instance.rows.size() > 1 ? " and others" : "") + "); use planner = \"ilp\"",
                  "planner");
    }
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    return exact::ExactSearch(instance, request).run();
  }
};

}  // namespace

std::unique_ptr<Planner> make_exact_planner() { return std::make_unique<ExactPlanner>(); }

}  // namespace tessera::solver
