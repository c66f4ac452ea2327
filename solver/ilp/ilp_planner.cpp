#include "ilp/pair_search.h"
#include "src/exhausted.h"
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
    if (auto refusal = refuse_hopeless(instance, request)) return *std::move(refusal);
    return PairSearch(instance, request).run();
  }
};

}  // namespace

std::unique_ptr<Planner> make_ilp_planner() { return std::make_unique<IlpPlanner>(); }

}  // namespace tessera::solver
