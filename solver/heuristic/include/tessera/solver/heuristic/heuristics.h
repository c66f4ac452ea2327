#pragma once

#include <memory>

#include "tessera/solver/heuristic/heuristic_starts.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {

/// Which rules and pioneers bitwidth transfer has.
enum class TransferRules {
  extended,  ///< ours: also larger sets, layers that simply go over, conversions; every pioneer
  printed    ///< Algorithm 2 of LLM-PQ as printed
};
/// Algorithm 2 of LLM-PQ: the straggler sheds layers to a pioneer by rules while that helps.
std::unique_ptr<Heuristic> make_bitwidth_transfer(TransferRules rules = TransferRules::extended);

/// A planner that lets a heuristic improve every start and keeps the best plan.
std::unique_ptr<Planner> make_heuristic_planner(std::unique_ptr<Heuristic> heuristic,
                                                StartSet starts = StartSet::best);

/// Least omega under memory, blind to latency: LLM-PQ's "adabits".
std::unique_ptr<Planner> make_adabits_planner();

/// Fills the devices in order up to one limit on the stage time: quick, and proves nothing.
std::unique_ptr<Planner> make_threshold_planner();

}  // namespace tessera::solver
