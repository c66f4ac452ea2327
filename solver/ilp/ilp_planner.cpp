#include "tessera/solver/ilp/ilp_planner.h"

#include "ilp_search.h"
#include "tessera/solver/ilp/model_dump.h"
#include "tessera/solver/instance/no_plan.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {
namespace {

class IlpPlanner : public Planner {
 public:
  Card card() const override {
    return {
        "ilp",
        "Integer programme on COIN-OR CBC: exact, with order, partition, bitwidths and "
        "micro-batch sizes searched or fixed; keeps side constraints, takes a plan to start from, "
        "returns a bound when it is stopped early",
        "SplitQuant Sec. IV, eqs. (3)-(16), in the prefix-and-counts form"};
  }

  PlanResult plan(const Instance& instance, const PlanRequest& request) const override {
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    return IlpSearch(instance, request).run();
  }
};

}  // namespace

std::optional<Violation> write_model(const Instance& instance, const PlanRequest& request,
                                     const std::string& path) {
  if (auto violation = find_obvious_infeasibility(instance, request)) return violation;
  return IlpSearch(instance, request).write(path);
}

std::unique_ptr<Planner> make_ilp_planner() { return std::make_unique<IlpPlanner>(); }

}  // namespace tessera::solver
