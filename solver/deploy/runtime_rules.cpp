#include "tessera/solver/deploy/runtime_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tessera/solver/plan/launch_rules.h"

namespace tessera::solver {
namespace {

std::string first_of(const std::vector<std::string>& found) {
  return found.empty() ? std::string{} : found.front();
}

TransferEnd transfer_end(const PoolEnd& end) {
  const Configuration& c = end.configuration;
  return {end.checkpoint, c.kv_bitwidth, c.tensor_parallel / c.split.attention_data_parallel,
          c.pipeline_parallel};
}

}  // namespace

std::string kernel_obstacle(Runtime runtime, const ModelShape& model, const Cluster& cluster,
                            const Configuration& configuration) {
  for (const std::string& type : configuration.type->types) {
    const auto slot =
        std::find_if(cluster.devices.begin(), cluster.devices.end(),
                     [&](const ClusterDevice& each) { return each.device.name == type; });
    const std::string obstacle = first_of(kernel_obstacles(
        runtime, model, {configuration.bitwidth}, configuration.kv_bitwidth, slot->device));
    if (!obstacle.empty()) return obstacle;
  }
  return {};
}

std::string engine_obstacle(Runtime runtime, const Configuration& configuration,
                            const AssembledDeployment& one, bool any_kernels) {
  const cost::KernelSet& kernels = one.context->kernel_set;
  std::string obstacle =
      first_of(launch_obstacles(runtime, *one.context, one.placement.value(), 0));
  if (runtime != Runtime::vllm || !obstacle.empty()) return obstacle;
  if (!any_kernels || kernels.runtime == name_of(runtime)) return {};
  return fmt::format(
      "no kernel of vLLM is priced for {}-bit weights on {} (kernel set {} has one, for runtime = "
      "\"tessera\")",
      configuration.bitwidth, configuration.type->name, kernels.name);
}

std::string transfer_obstacle(Runtime runtime, const PoolEnd& from, const PoolEnd& to) {
  return solver::transfer_obstacle(runtime, transfer_end(from), transfer_end(to));
}

}  // namespace tessera::solver
