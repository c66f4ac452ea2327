#pragma once

#include <cstddef>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The instance in which blocks of `size` neighbouring layers are decided together (`group` of
/// ts.plan): one stage, one bitwidth. Times, bytes and omega of a block are the sums over its
/// layers; the last block may be smaller. (The published LLM-PQ code averages omega over a block,
/// which halves theta at size 2.)
Instance merge_layer_blocks(const Instance& instance, std::size_t size);

/// The decision for single layers that a decision for blocks of `size` stands for.
Candidate split_layer_blocks(const Instance& instance, const Candidate& blocks, std::size_t size);

/// Plans blocks of layers with any planner: a smaller search whose plan and bound hold for plans
/// that keep blocks together. Size 1 is the planner itself.
PlanResult plan_layer_blocks(const Planner& planner, const Instance& instance,
                             const PlanRequest& request, std::size_t size);

}  // namespace tessera::solver
