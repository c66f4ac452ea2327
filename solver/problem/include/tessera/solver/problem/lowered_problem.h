#pragma once

#include <memory>

#include "tessera/solver/instance/instance.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// A problem with the instance that it lowers to, which all copies share: what a plan is a plan of.
/// Immutable. For one thread at a time, as an instance computes its costs when they are first asked
/// for.
class LoweredProblem {
 public:
  /// @param prices of problems like it, shared; null: its own
  explicit LoweredProblem(Problem problem, std::shared_ptr<cost::PriceCache> prices = nullptr);

  const Problem& problem() const;
  /// Null for an instance file.
  const BatchProblem* batch() const { return problem().batch(); }
  /// Lowered when first asked for. @throws as `lower`.
  const Instance& instance() const;

  /// Whether the problems are the same in every field.
  friend bool operator==(const LoweredProblem& a, const LoweredProblem& b);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::solver
