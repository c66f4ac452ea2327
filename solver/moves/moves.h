#pragma once

#include <optional>
#include <vector>

#include "tessera/solver/moves/plan_search.h"
#include "working_plan.h"

namespace tessera::solver {

/// Layers of a stage.
std::size_t size_of(const Candidate& candidate, std::size_t stage);
/// [bit] Layers of a stage at each bitwidth.
std::vector<std::size_t> bit_counts(const WorkingPlan& plan, std::size_t stage);

/// How a rule changes the layers of its two ends: how many of each bitwidth, and how many in all.
struct RuleEffect {
  std::vector<std::size_t> straggler, pioneer;  ///< counts by bit
  std::size_t net = 0;                          ///< layers that the straggler loses
};

/// `num_layers` straggler layers of `from_bitwidth` go over. Exchange (the pioneer's layers that
/// change have `to_bitwidth`): these come back, no more than go over, and all keep their bitwidths.
/// Conversion: all become `to_bitwidth`.
std::optional<RuleEffect> effect_of(const WorkingPlan& plan, const Move& move,
                                    const std::vector<std::size_t>& straggler,
                                    const std::vector<std::size_t>& pioneer);
/// The plan after a rule. Which layers have which bitwidth, in the two stages and between, follows
/// from the counts.
Candidate after_rule(const WorkingPlan& plan, std::size_t straggler, std::size_t pioneer,
                     const RuleEffect& effect);

/// The plan after a move; absent when it names stages, layers, bitwidths or sizes that this plan
/// does not have. The result need not fit.
std::optional<Candidate> result_of(const WorkingPlan& plan, const Move& move);

/// `move` with its figures computed from scratch; `fits` is false for a move that result_of
/// refuses.
Move priced(const WorkingPlan& plan, Move move);

}  // namespace tessera::solver
