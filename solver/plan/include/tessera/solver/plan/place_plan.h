#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/core/placement.h"
#include "tessera/solver/plan/plan.h"

namespace tessera::solver {

/// The devices of its problem's cluster that each stage of a plan runs on, by tensor-parallel rank.
/// @throws Error{unsupported} for the plan of an abstract instance, which has no devices;
/// Error{invalid_argument} for a stage that no group of the problem's mesh starts at.
std::vector<std::vector<std::size_t>> stage_devices(const PipelinePlan& plan);

/// Where the layers of a plan lie: an engine for each of its pipelines. Nodes are the cluster's; of
/// a replica that is given alone they are numbered as in its own part of the cluster. Stages
/// without layers keep their places.
/// @throws as stage_devices, and Error{invalid_argument} for stages that do not hold the model's
/// layers in order.
Placement placement_of(const PipelinePlan& plan);
Placement placement_of(const Plan& plan);

/// The same of a plan whose cluster is a part of something larger: device k of it is at places[k],
/// on a node of `nodes`.
Placement placement_at(const Plan& plan, std::vector<std::string> nodes,
                       const std::vector<DevicePlace>& places);

}  // namespace tessera::solver
