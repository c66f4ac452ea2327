#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tessera/cost/latency.h"
#include "tessera/solver/problem/problem.h"

namespace tessera::solver {

/// The model of one device: by its profile where the problem has one, else the roofline.
std::unique_ptr<cost::LatencyModel> device_model_of(const ServingProblem& serving,
                                                    const Device& device);

/// The model of one tensor-parallel group, or device, of a cluster.
std::unique_ptr<cost::LatencyModel> latency_model_of(const ServingProblem& serving,
                                                     const std::vector<std::size_t>& members);

/// Seconds in which hidden states or tokens go from a device of the cluster over `link`.
double hop_s(const ServingProblem& serving, std::size_t from, const Link& link, double bytes);

/// The units of a phase, whose mean is a micro-batch: chunks of a prompt, or the one mean decode
/// step.
std::vector<cost::LayerWork> units_of(const Workload& workload, double size, cost::Phase phase);

}  // namespace tessera::solver
