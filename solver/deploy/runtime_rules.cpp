#include "tessera/solver/deploy/runtime_rules.h"

#include <fmt/format.h>

#include <vector>

#include "tessera/solver/plan/launch_rules.h"
#include "tessera/solver/plan/place_plan.h"

namespace tessera::solver {
namespace {

Runtime launched_by(ServingRuntime runtime) {
  return runtime == ServingRuntime::vllm ? Runtime::vllm : Runtime::tessera;
}

std::string first_of(const std::vector<std::string>& found) {
  return found.empty() ? std::string{} : found.front();
}

TransferEnd transfer_end(const PoolEnd& end) {
  const Configuration& c = end.configuration;
  return {end.checkpoint, c.kv_bitwidth, c.tensor_parallel, c.pipeline_parallel};
}

}  // namespace

std::string kernel_obstacle(ServingRuntime runtime, const Configuration& configuration) {
  return first_of(kernel_obstacles(launched_by(runtime), {configuration.bitwidth},
                                   configuration.kv_bitwidth, configuration.type->name,
                                   configuration.type->compute_capability));
}

std::string plan_obstacle(ServingRuntime runtime, const Configuration& configuration,
                          const PipelinePlan& plan, bool any_kernels) {
  const ServingProblem& serving = *plan.problem.serving();
  std::string obstacle =
      first_of(launch_obstacles(launched_by(runtime), serving, placement_of(plan), 0, true));
  if (runtime != ServingRuntime::vllm || !obstacle.empty()) return obstacle;
  if (!any_kernels || serving.kernel_set.runtime == name_of(runtime)) return {};
  return fmt::format(
      "no kernel of vLLM is priced for {}-bit weights on {} (kernel set {} has one, for runtime = "
      "\"tessera\")",
      configuration.bitwidth, configuration.type->name, serving.kernel_set.name);
}

std::string checkpoint_of(const PipelinePlan& plan) {
  return checkpoint_of(*plan.problem.serving(), placement_of(plan).engines.front());
}

std::string transfer_obstacle(ServingRuntime runtime, const PoolEnd& from, const PoolEnd& to) {
  return transfer_obstacle(launched_by(runtime), transfer_end(from), transfer_end(to));
}

}  // namespace tessera::solver
