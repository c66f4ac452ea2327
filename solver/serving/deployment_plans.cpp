#include "tessera/solver/serving/deployment_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/cost/auto_kernel_set.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

constexpr std::int64_t kUsualTokens = 1024;

void check_bitwidths(const ServingProblem& serving, const PlacedEngine& engine) {
  for (const PlacedStage& stage : engine.stages) {
    for (const std::int32_t bitwidth : stage.bitwidths) {
      const auto& known = serving.bitwidths;
      if (std::find(known.begin(), known.end(), bitwidth) != known.end()) continue;
      refuse("bitwidth", "{} is not one of the problem's bitwidths ({})", bitwidth,
             fmt::join(known, ", "));
    }
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

/// "2xA100-40G@a", as orders of groups name it.
std::vector<std::string> group_names(const Placement& placement, const PlacedEngine& engine) {
  std::vector<std::string> names;
  for (const PlacedStage& stage : engine.stages) {
    names.push_back(stage.group_name() + "@" +
                    placement.nodes[static_cast<std::size_t>(stage.node_index)]);
  }
  return names;
}

Candidate candidate_of(const Instance& instance, const Placement& placement,
                       const PlacedEngine& engine) {
  Candidate candidate;
  candidate.order = order_from_names(instance, group_names(placement, engine));
  candidate.prefill_micro_batch_size = candidate.decode_micro_batch_size = 1;
  candidate.first_layer.push_back(0);
  for (const PlacedStage& stage : engine.stages) {
    for (const std::int32_t bitwidth : stage.bitwidths) {
      const auto at = std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bitwidth);
      candidate.bit.push_back(static_cast<std::size_t>(at - instance.bitwidths.begin()));
    }
    candidate.first_layer.push_back(candidate.bit.size());
  }
  return candidate;
}

/// Of one engine, whose devices are given in the order of the cluster.
PipelinePlan plan_of(const Problem& whole, const Placement& placement, const PlacedEngine& engine,
                     const std::vector<std::size_t>& devices) {
  Problem part = on_devices(whole, devices, 1);
  ServingProblem& serving = *part.serving();
  const std::int64_t degree = engine.stages.front().degree();
  if (degree > 1) serving.mesh = even_mesh(serving.cluster, static_cast<std::int32_t>(degree));
  const LoweredProblem problem{std::move(part)};
  Candidate candidate = candidate_of(problem.instance(), placement, engine);
  if (const auto violation = find_violation(problem.instance(), candidate)) {
    refuse("deployment", "{} with tensor_parallel {} and pipeline_parallel {}: {}",
           problem.serving()->model.name, degree, engine.stages.size(), violation->message);
  }
  PlanResult result;
  result.status = SolveStatus::feasible;
  result.candidate = std::move(candidate);
  return build_plan(problem, result, "manual");
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

Problem deployment_problem(cost::PricingContext context, const std::vector<std::int32_t>& bitwidths,
                           std::int32_t kv_bitwidth) {
  ServingProblem serving;
  static_cast<cost::PricingContext&>(serving) = std::move(context);
  serving.bitwidths = bitwidths;
  std::sort(serving.bitwidths.begin(), serving.bitwidths.end());
  serving.bitwidths.erase(std::unique(serving.bitwidths.begin(), serving.bitwidths.end()),
                          serving.bitwidths.end());
  serving.kv_bitwidth = kv_bitwidth;
  const std::int64_t tokens =
      std::clamp<std::int64_t>(serving.model.max_context_tokens / 2, 1, kUsualTokens);
  serving.workload.batch_size = 1;
  serving.workload.prompt_tokens = serving.workload.output_tokens = static_cast<double>(tokens);
  serving.workload.max_prompt_tokens = serving.workload.max_output_tokens = tokens;
  serving.indicator =
      silent_indicator(static_cast<std::size_t>(serving.model.num_layers), serving.bitwidths);
  Problem problem;
  problem.given = std::move(serving);
  return problem;
}

Problem deployment_problem(ModelShape model, Cluster cluster,
                           const std::vector<std::int32_t>& bitwidths, std::int32_t kv_bitwidth,
                           const std::string& kernel_set, const DataFolders& folders) {
  return deployment_problem(
      cost::pricing_context(std::move(model), std::move(cluster), bitwidths, kernel_set, folders),
      bitwidths, kv_bitwidth);
}

std::vector<PipelinePlan> deployment_plans(const Problem& problem, const Placement& placement) {
  std::vector<PipelinePlan> plans;
  const Cluster& cluster = problem.serving()->cluster;
  std::map<std::vector<std::string>, std::size_t> known;  // replicas on the same nodes are alike
  for (const PlacedEngine& engine : placement.engines) {
    check_bitwidths(*problem.serving(), engine);
    std::vector<std::size_t> devices;
    for (const auto& members : stage_devices(placement, engine, cluster)) {
      devices.insert(devices.end(), members.begin(), members.end());
    }
    std::sort(devices.begin(), devices.end());
    const auto [it, fresh] = known.try_emplace(group_names(placement, engine), plans.size());
    plans.push_back(fresh ? plan_of(problem, placement, engine, devices) : plans[it->second]);
    plans.back().devices.emplace(devices.begin(), devices.end());
  }
  return plans;
}

std::vector<PipelinePlan> deployment_plans(const Problem& problem, const DeploymentShape& shape) {
  const ServingProblem* serving = problem.serving();
  if (serving == nullptr) {
    refuse(ErrorCode::unsupported, "deployment",
           "an abstract instance has no devices to deploy on");
  }
  return deployment_plans(problem, place(serving->model, serving->cluster, shape));
}

}  // namespace tessera::solver
