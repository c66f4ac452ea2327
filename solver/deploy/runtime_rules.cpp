#include "tessera/solver/deploy/runtime_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tessera/core/text.h"

namespace tessera::solver {
namespace {

/// What vLLM has kernels for, on a type of device.
std::string vllm_kernel_obstacle(const Configuration& c) {
  if (c.bitwidth != 4 && c.bitwidth != 8 && c.bitwidth != 16) {
    return fmt::format("vLLM has no kernel for {}-bit weights", c.bitwidth);
  }
  const double capability = c.type->compute_capability;
  if (capability < 2) {
    return fmt::format("launch files are for NVIDIA's GPUs, and {} is none", c.type->name);
  }
  if (capability < 7) {
    return fmt::format("{} has compute capability {:g}; vLLM needs 7.0", c.type->name, capability);
  }
  if (c.kv_bitwidth == 8 && capability < 8.9) {
    return fmt::format(
        "an 8-bit KV cache is FP8 in vLLM, which needs compute capability 8.9; {} has {:g}",
        c.type->name, capability);
  }
  if (c.kv_bitwidth != 16 && c.kv_bitwidth != 8) {
    return fmt::format("vLLM has no KV cache of {} bits", c.kv_bitwidth);
  }
  return {};
}

/// Neighbouring stages on one node.
struct Span {
  std::string node;
  std::int64_t num_gpus = 0;
};

std::vector<Span> spans_of(const PipelinePlan& plan, std::int64_t degree) {
  std::vector<Span> spans;
  for (const PlanStage& stage : plan.stages) {
    if (spans.empty() || spans.back().node != stage.node) spans.push_back({stage.node});
    spans.back().num_gpus += degree;
  }
  return spans;
}

/// vLLM's ranks on a node are neighbours. Nodes with unlike numbers of GPUs want Ray, whose workers
/// are sorted: those of the head node first, then nodes with fewer before nodes with more (vLLM,
/// sort_by_driver_then_worker_ip).
std::string vllm_order_obstacle(const std::vector<Span>& spans) {
  std::set<std::string> seen;
  std::vector<std::string> counts;
  bool even = true, sorted = true;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!seen.insert(spans[i].node).second) {
      return fmt::format(
          "the pipeline leaves node {} and comes back to it; vLLM's ranks on a node are neighbours",
          spans[i].node);
    }
    even &= spans[i].num_gpus == spans[0].num_gpus;
    sorted &= i < 2 || spans[i].num_gpus >= spans[i - 1].num_gpus;
    counts.push_back(fmt::format("{}", spans[i].num_gpus));
  }
  if (even || sorted) return {};
  return fmt::format(
      "behind the first node vLLM puts nodes with fewer GPUs first; this pipeline has {}",
      join(counts, ", "));
}

}  // namespace

std::string kernel_obstacle(ServingRuntime runtime, const Configuration& configuration) {
  return runtime == ServingRuntime::vllm ? vllm_kernel_obstacle(configuration) : std::string{};
}

std::string plan_obstacle(ServingRuntime runtime, const Configuration& configuration,
                          const PipelinePlan& plan, bool any_kernels) {
  if (runtime != ServingRuntime::vllm) return {};
  std::string obstacle = vllm_order_obstacle(spans_of(plan, configuration.tensor_parallel));
  if (!obstacle.empty()) return obstacle;
  const cost::KernelSet& kernels = plan.problem.serving()->kernel_set;
  if (!any_kernels || kernels.runtime == name_of(runtime)) return {};
  return fmt::format(
      "no kernel of vLLM is priced for {}-bit weights on {} (kernel set {} has one, for runtime = "
      "\"tessera\")",
      configuration.bitwidth, configuration.type->name, kernels.name);
}

std::string checkpoint_of(const Configuration& configuration, const PipelinePlan& plan) {
  std::string bits = fmt::format("{}", configuration.bitwidth);
  if (configuration.bitwidth != 8) return bits;
  const ServingProblem& serving = *plan.problem.serving();
  const cost::KernelRule* rule =
      serving.kernel_set.find(serving.cluster.devices.front().device, configuration.bitwidth);
  const WeightFormat format = rule == nullptr ? WeightFormat::weights_only : rule->format();
  switch (format) {
    case WeightFormat::int8_activations:
      return bits + " w8a8";
    case WeightFormat::fp8_weights:
    case WeightFormat::fp8_activations:
      return bits + " fp8";
    case WeightFormat::weights_only:
    case WeightFormat::per_channel:
      break;
  }
  return bits;
}

std::string transfer_obstacle(ServingRuntime runtime, const TransferEnd& from,
                              const TransferEnd& to) {
  const Configuration &a = from.configuration, &b = to.configuration;
  if (a.kv_bitwidth != b.kv_bitwidth) return "pools: unlike KV caches";
  if (runtime != ServingRuntime::vllm) return {};
  if (from.checkpoint != to.checkpoint) return "pools: vLLM wants one checkpoint in both";
  if (a.pipeline_parallel > 1 || b.pipeline_parallel > 1) {
    return "pools: vLLM documents no pipelines in them";
  }
  const auto [small, large] = std::minmax(a.tensor_parallel, b.tensor_parallel);
  if (large % small == 0) return {};
  return fmt::format("pools: degrees {} and {}, neither divides the other", small, large);
}

}  // namespace tessera::solver
