#pragma once

#include <string>

#include "tessera/solver/deploy/assemble.h"
#include "tessera/solver/deploy/configuration.h"
#include "tessera/solver/deploy/serving_request.h"

/// What a runtime has kernels for, and what its launch files can say: the rules of launch_rules.h
/// for configurations. Reasons are one line; empty where there is no obstacle.
namespace tessera::solver {

/// Why the runtime has no kernels for such an engine on its type of device.
std::string kernel_obstacle(Runtime runtime, const ModelShape& model, const Cluster& cluster,
                            const Configuration& configuration);

/// Why the runtime cannot launch such an engine as it is deployed. @param one an engine of it,
/// alone @param any_kernels the kernel set was chosen for the devices, and not named
std::string engine_obstacle(Runtime runtime, const Configuration& configuration,
                            const AssembledDeployment& one, bool any_kernels);

/// An engine of a pool that keys and values leave, or come to.
struct PoolEnd {
  const Configuration& configuration;
  std::string checkpoint;
};
/// Why the runtime cannot hand keys and values from one engine to another.
std::string transfer_obstacle(Runtime runtime, const PoolEnd& from, const PoolEnd& to);

}  // namespace tessera::solver
