#pragma once

#include <memory>

#include "tessera/solver/instance/planner.h"
#include "tessera/solver/moves/plan_search.h"

namespace tessera::solver {

/// Algorithm 2 of LLM-PQ: the straggler sheds layers to a pioneer by rules while that helps.
std::unique_ptr<Heuristic> make_bitwidth_transfer();

/// A planner that lets a heuristic improve every start and keeps the best plan.
std::unique_ptr<Planner> make_heuristic_planner(std::unique_ptr<Heuristic> heuristic);

/// Least omega under memory, blind to latency: LLM-PQ's "adabits".
std::unique_ptr<Planner> make_adabits_planner();

/// Fills the devices in order up to one limit on the stage time: quick, and proves nothing.
std::unique_ptr<Planner> make_threshold_planner();

}  // namespace tessera::solver
