#include "tessera/solver/serving/deployment_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

using Group = std::vector<std::size_t>;  ///< devices of one tensor-parallel group
using Pipeline = std::vector<Group>;

constexpr std::int64_t kUsualTokens = 1024;

/// Groups of consecutive devices of a type on a node, by node.
std::vector<std::vector<Group>> groups_of(const Cluster& cluster, std::size_t degree) {
  std::vector<std::vector<Group>> by_node(cluster.nodes.size());
  std::map<std::pair<std::size_t, std::string>, Group> open;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    Group& group = open[{slot.node_index, slot.device.name}];
    group.push_back(i);
    if (group.size() < degree) continue;
    by_node[slot.node_index].push_back(std::exchange(group, {}));
  }
  return by_node;
}

/// Pipelines of one node each, then of what these leave over.
std::vector<Pipeline> pipelines_of(const std::vector<std::vector<Group>>& by_node,
                                   std::size_t num_stages) {
  std::vector<Pipeline> pipelines;
  Pipeline rest;
  const auto take = [&](const std::vector<Group>& groups) {
    std::size_t next = 0;
    for (; next + num_stages <= groups.size(); next += num_stages) {
      const auto first = groups.begin() + static_cast<std::ptrdiff_t>(next);
      pipelines.emplace_back(first, first + static_cast<std::ptrdiff_t>(num_stages));
    }
    return next;
  };
  for (const std::vector<Group>& groups : by_node) {
    const std::size_t taken = take(groups);
    rest.insert(rest.end(), groups.begin() + static_cast<std::ptrdiff_t>(taken), groups.end());
  }
  take(rest);
  return pipelines;
}

std::vector<Pipeline> replicas_of(const Cluster& cluster, const DeploymentShape& shape) {
  const auto degree = static_cast<std::size_t>(shape.tensor_parallel);
  const auto num_stages = static_cast<std::size_t>(shape.pipeline_parallel);
  std::vector<Pipeline> pipelines = pipelines_of(groups_of(cluster, degree), num_stages);
  const auto wanted = static_cast<std::size_t>(shape.replicas.value_or(1));
  if (pipelines.size() < wanted) {
    refuse(
        "replicas",
        "{} of tensor_parallel {} x pipeline_parallel {} need {} devices, each group of one type "
        "on one node; the {} devices of {} have room for {}",
        wanted, degree, num_stages, wanted * degree * num_stages, cluster.devices.size(),
        cluster.name, pipelines.size());
  }
  if (shape.replicas) pipelines.resize(wanted);
  return pipelines;
}

void check_shape(const ServingProblem& serving, const DeploymentShape& shape) {
  const auto check_positive = [](std::int64_t value, const char* path) {
    if (value < 1)
      refuse(ErrorCode::out_of_range, path, fmt::format("{}, at least 1 is needed", value));
  };
  check_positive(shape.tensor_parallel, "tensor_parallel");
  check_positive(shape.pipeline_parallel, "pipeline_parallel");
  check_positive(shape.replicas.value_or(1), "replicas");
  const std::int64_t num_layers = serving.model.num_layers;
  if (const auto reason = cost::why_not_sharded(serving.model, shape.tensor_parallel)) {
    refuse("tensor_parallel", "{}: {}", serving.model.name, *reason);
  }
  if (shape.pipeline_parallel > num_layers) {
    refuse("pipeline_parallel", "{} stages for {} layers of {}", shape.pipeline_parallel,
           num_layers, serving.model.name);
  }
  if (shape.bitwidths.size() != 1 && std::ssize(shape.bitwidths) != num_layers) {
    refuse("bitwidth", "give one for all, or one for each of the {} layers of {}; there are {}",
           num_layers, serving.model.name, shape.bitwidths.size());
  }
  for (const std::int32_t bitwidth : shape.bitwidths) {
    if (std::find(serving.bitwidths.begin(), serving.bitwidths.end(), bitwidth) !=
        serving.bitwidths.end()) {
      continue;
    }
    refuse("bitwidth", "{} is not one of the problem's bitwidths ({})", bitwidth,
           fmt::join(serving.bitwidths, ", "));
  }
}

/// The mesh of a part of a cluster that is cut into groups of one degree without a rest.
Mesh even_mesh(const Cluster& cluster, std::int32_t degree) {
  std::vector<std::pair<std::string, std::size_t>> kinds;
  Mesh mesh;
  std::vector<std::int32_t> counts;
  for (const ClusterDevice& slot : cluster.devices) {
    const std::pair kind(slot.device.name, slot.node_index);
    const auto at = std::find(kinds.begin(), kinds.end(), kind);
    const auto index = static_cast<std::size_t>(at - kinds.begin());
    if (at == kinds.end()) {
      kinds.push_back(kind);
      counts.push_back(0);
    }
    ++counts[index];
  }
  for (const std::int32_t count : counts) {
    mesh.emplace_back(static_cast<std::size_t>(count / degree), degree);
  }
  return mesh;
}

std::string name_of_group(const Cluster& cluster, const Group& group) {
  const ClusterDevice& slot = cluster.devices[group.front()];
  const std::string device =
      group.size() == 1 ? slot.device.name : fmt::format("{}x{}", group.size(), slot.device.name);
  return device + "@" + cluster.nodes[slot.node_index].name;
}

PipelinePlan plan_of(const Problem& whole, const DeploymentShape& shape, const Pipeline& pipeline) {
  std::vector<std::size_t> devices;
  for (const Group& group : pipeline) devices.insert(devices.end(), group.begin(), group.end());
  std::sort(devices.begin(), devices.end());
  Problem part = on_devices(whole, devices, 1);
  ServingProblem& serving = *part.serving();
  if (shape.tensor_parallel > 1) {
    serving.mesh = even_mesh(serving.cluster, static_cast<std::int32_t>(shape.tensor_parallel));
  }
  const LoweredProblem problem{std::move(part)};
  const Instance& instance = problem.instance();
  std::vector<std::string> names;
  for (const Group& group : pipeline) {
    names.push_back(name_of_group(whole.serving()->cluster, group));
  }
  Candidate candidate;
  candidate.order = order_from_names(instance, names);
  candidate.prefill_micro_batch_size = candidate.decode_micro_batch_size = 1;
  candidate.first_layer.push_back(0);
  for (const std::int64_t layers :
       vllm_layer_split(problem.serving()->model.num_layers, shape.pipeline_parallel)) {
    candidate.first_layer.push_back(candidate.first_layer.back() +
                                    static_cast<std::size_t>(layers));
  }
  for (std::size_t i = 0; i < candidate.first_layer.back(); ++i) {
    const std::int32_t bitwidth = shape.bitwidths[shape.bitwidths.size() == 1 ? 0 : i];
    const auto at = std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bitwidth);
    candidate.bit.push_back(static_cast<std::size_t>(at - instance.bitwidths.begin()));
  }
  if (const auto violation = find_violation(instance, candidate)) {
    refuse("deployment", "{} with tensor_parallel {} and pipeline_parallel {}: {}",
           problem.serving()->model.name, shape.tensor_parallel, shape.pipeline_parallel,
           violation->message);
  }
  PlanResult result;
  result.status = SolveStatus::feasible;
  result.candidate = std::move(candidate);
  PipelinePlan plan = build_plan(problem, result, "manual");
  plan.devices.emplace(devices.begin(), devices.end());
  return plan;
}

Indicator silent_indicator(std::size_t num_layers, const std::vector<std::int32_t>& bitwidths) {
  Indicator indicator;
  indicator.kind = "constant";
  indicator.num_layers = num_layers;
  indicator.bitwidths = bitwidths;
  indicator.omega.assign(num_layers * bitwidths.size(), 0);
  return indicator;
}

}  // namespace

std::vector<std::int64_t> vllm_layer_split(std::int64_t num_layers, std::int64_t num_stages) {
  std::vector<std::int64_t> layers(static_cast<std::size_t>(num_stages), num_layers / num_stages);
  for (std::int64_t i = 0; i < num_layers % num_stages; ++i) {
    ++layers[static_cast<std::size_t>(num_stages - 2 - i)];
  }
  return layers;
}

Problem deployment_problem(ModelShape model, Cluster cluster,
                           const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                           const std::string& kernel_set, const DataFolders& folders) {
  ServingProblem serving;
  serving.bitwidths = bitwidths;
  std::sort(serving.bitwidths.begin(), serving.bitwidths.end());
  serving.bitwidths.erase(std::unique(serving.bitwidths.begin(), serving.bitwidths.end()),
                          serving.bitwidths.end());
  serving.kv_bitwidth = kv_bitwidth;
  std::vector<Device> devices;
  for (const ClusterDevice& slot : cluster.devices) devices.push_back(slot.device);
  serving.kernel_set =
      kernel_set == cost::kAutoKernelSet
          ? cost::recommended_kernel_sets(devices, serving.bitwidths, {}, folders).front()
          : cost::find_kernel_set(kernel_set, folders);
  for (const Device& device : devices) {
    const bool known =
        std::any_of(serving.profiles.begin(), serving.profiles.end(),
                    [&](const auto& profile) { return profile->device.name == device.name; });
    if (known) continue;
    auto profile = cost::profile_for(device, serving.kernel_set, folders);
    if (!profile->parts.empty()) serving.profiles.push_back(std::move(profile));
  }
  const std::int64_t tokens =
      std::clamp<std::int64_t>(model.max_context_tokens / 2, 1, kUsualTokens);
  serving.workload.batch_size = 1;
  serving.workload.prompt_tokens = serving.workload.output_tokens = static_cast<double>(tokens);
  serving.workload.max_prompt_tokens = serving.workload.max_output_tokens = tokens;
  serving.indicator =
      silent_indicator(static_cast<std::size_t>(model.num_layers), serving.bitwidths);
  serving.model = std::move(model);
  serving.cluster = std::move(cluster);
  Problem problem;
  problem.given = std::move(serving);
  return problem;
}

std::vector<PipelinePlan> deployment_plans(const Problem& problem, const DeploymentShape& shape) {
  if (problem.serving() == nullptr) {
    refuse(ErrorCode::unsupported, "deployment",
           "an abstract instance has no devices to deploy on");
  }
  check_shape(*problem.serving(), shape);
  const Cluster& cluster = problem.serving()->cluster;
  std::vector<PipelinePlan> plans;
  std::map<std::vector<std::string>, std::size_t> known;  // replicas on the same nodes are alike
  for (const Pipeline& pipeline : replicas_of(cluster, shape)) {
    std::vector<std::string> kind;
    for (const Group& group : pipeline) kind.push_back(name_of_group(cluster, group));
    const auto [it, fresh] = known.try_emplace(kind, plans.size());
    if (fresh) {
      plans.push_back(plan_of(problem, shape, pipeline));
      continue;
    }
    PipelinePlan same = plans[it->second];
    std::vector<std::int64_t> devices;
    for (const Group& group : pipeline) devices.insert(devices.end(), group.begin(), group.end());
    std::sort(devices.begin(), devices.end());
    same.devices = std::move(devices);
    plans.push_back(std::move(same));
  }
  return plans;
}

}  // namespace tessera::solver
