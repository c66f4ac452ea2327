#pragma once

#include <cstddef>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// The instance in which `size` neighbouring layers are decided together: one stage, one bitwidth.
/// Times, bytes and omega of a group are the sums over its layers; the last group may be smaller.
/// (The published LLM-PQ code averages omega over a group, which halves theta at size 2.)
Instance group_layers(const Instance& instance, std::size_t size);

/// The decision for single layers that a decision for groups of `size` stands for.
Candidate ungroup(const Instance& instance, const Candidate& grouped, std::size_t size);

/// Plans groups of layers with any planner: a smaller search whose plan and bound hold for plans
/// that keep groups together. Size 1 is the planner itself.
PlanResult plan_grouped(const Planner& planner, const Instance& instance,
                        const PlanRequest& request, std::size_t size);

}  // namespace tessera::solver
