#pragma once

#include <string>

#include "tessera/solver/deploy/assemble.h"
#include "tessera/solver/deploy/configuration.h"
#include "tessera/solver/deploy/serving_request.h"

/// What a runtime has kernels for, and what its launch files can say. Reasons are one line; empty
/// where there is no obstacle.
namespace tessera::solver {

/// Why the runtime has no kernels for such an engine on its type of device.
std::string kernel_obstacle(ServingRuntime runtime, const Configuration& configuration);

/// Why the runtime cannot launch such an engine as it is deployed. @param any_kernels the kernel
/// set was chosen for the devices, and not named
std::string plan_obstacle(ServingRuntime runtime, const Configuration& configuration,
                          const PipelinePlan& plan, bool any_kernels);

/// What tells one checkpoint of a model in one bitwidth throughout from another: the bits, and what
/// 8 bits mean with these kernels.
std::string checkpoint_of(const Configuration& configuration, const PipelinePlan& plan);

/// An end of a transfer of keys and values.
struct TransferEnd {
  const Configuration& configuration;
  std::string checkpoint;
};
/// Why the runtime cannot hand keys and values from one engine to another. Whatever runs them, both
/// read the same KV cache; vLLM's NixlConnector wants one checkpoint, and degrees of which one
/// divides the other (docs/features/nixl_connector_compatibility.md); stages it leaves out.
std::string transfer_obstacle(ServingRuntime runtime, const TransferEnd& from,
                              const TransferEnd& to);

}  // namespace tessera::solver
