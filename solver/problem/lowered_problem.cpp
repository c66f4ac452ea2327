#include "tessera/solver/problem/lowered_problem.h"

#include <optional>
#include <utility>

#include "tessera/core/json.h"

namespace tessera::solver {

struct LoweredProblem::State {
  Problem problem;
  std::shared_ptr<cost::PriceCache> prices;
  std::optional<Instance> instance;
};

LoweredProblem::LoweredProblem(Problem problem, std::shared_ptr<cost::PriceCache> prices)
    : state_(std::make_shared<State>(State{std::move(problem), std::move(prices), std::nullopt})) {}

const Problem& LoweredProblem::problem() const { return state_->problem; }

const Instance& LoweredProblem::instance() const {
  if (!state_->instance) state_->instance = lower(state_->problem, state_->prices);
  return *state_->instance;
}

bool operator==(const LoweredProblem& a, const LoweredProblem& b) {
  return a.state_ == b.state_ || to_json(a.problem()) == to_json(b.problem());
}

}  // namespace tessera::solver
