#include "tessera/solver/serving/deployment_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tessera/core/device_group.h"
#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/solver/instance/partition.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/problem/quality_bound.h"
#include "tessera/solver/serving/priced_engine.h"

namespace tessera::solver {
namespace {

/// The mesh of a part of a cluster that is cut into groups of one degree without a rest, of alike
/// devices or of all of a node.
Mesh even_mesh(const Cluster& cluster, std::int32_t degree, bool has_unlike_groups) {
  std::vector<std::pair<std::string, std::size_t>> kinds;
  Mesh mesh;
  std::vector<std::int32_t> counts;
  for (const ClusterDevice& slot : cluster.devices) {
    const std::pair kind(has_unlike_groups ? "" : slot.device.name, slot.node_index);
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
LoweredProblem part_of(const Problem& whole, const PlacedEngine& engine,
                       const std::vector<std::size_t>& devices, std::int64_t batch_size) {
  Problem part = on_devices(whole, devices, batch_size);
  BatchProblem& batch = *part.batch();
  const PlacedStage& first = engine.stages.front();
  if (first.degree() > 1) {
    batch.mesh = even_mesh(batch.cluster, static_cast<std::int32_t>(first.degree()),
                           types_in(first.device).size() > 1);
  }
  return LoweredProblem{std::move(part)};
}

PipelinePlan plan_of(const Problem& whole, const Placement& placement, const PlacedEngine& engine,
                     const std::vector<std::size_t>& devices) {
  const LoweredProblem problem = part_of(whole, engine, devices, 1);
  Candidate candidate = candidate_of(problem.instance(), placement, engine);
  if (const auto violation = find_violation(problem.instance(), candidate)) {
    refuse("deployment", "{} with tensor_parallel {} and pipeline_parallel {}: {}",
           problem.batch()->model.name, engine.stages.front().degree(), engine.stages.size(),
           violation->message);
  }
  PlanResult result;
  result.status = SolveStatus::feasible;
  result.candidate = std::move(candidate);
  return build_plan(problem, result, "manual");
}

std::vector<std::int32_t> bitwidths_of(const Placement& placement) {
  std::set<std::int32_t> bitwidths;
  for (const PlacedEngine& engine : placement.engines) {
    for (const PlacedStage& stage : engine.stages) {
      bitwidths.insert(stage.bitwidths.begin(), stage.bitwidths.end());
    }
  }
  return {bitwidths.begin(), bitwidths.end()};
}

/// What such plans are of. No bitwidth is chosen by it, so no layer is told from another.
Problem problem_of(const cost::PricingContext& context, const Placement& placement) {
  BatchProblem batch;
  static_cast<cost::PricingContext&>(batch) = context;
  batch.bitwidths = bitwidths_of(placement);
  batch.kv_bitwidth = placement.engines.front().kv_bitwidth;
  const std::int64_t tokens = usual_tokens(context.model);
  batch.workload.batch_size = std::ssize(placement.engines);
  batch.workload.prompt_tokens = batch.workload.output_tokens = static_cast<double>(tokens);
  batch.workload.max_prompt_tokens = batch.workload.max_output_tokens = tokens;
  batch.indicator.kind = "constant";
  batch.indicator.num_layers = static_cast<std::size_t>(context.model.num_layers);
  batch.indicator.bitwidths = batch.bitwidths;
  batch.indicator.omega.assign(batch.indicator.num_layers * batch.bitwidths.size(), 0);
  Problem problem;
  problem.given = std::move(batch);
  return problem;
}

Problem with_quality(Problem problem, const DataFolders& folders) {
  set_quality(problem, folders, true);  // omega: what is published of the losses, in nats
  return problem;
}

/// In the order of the cluster.
std::vector<std::size_t> devices_of(const Placement& placement, const PlacedEngine& engine,
                                    const Cluster& cluster) {
  std::vector<std::size_t> devices;
  for (const auto& members : stage_devices(placement, engine, cluster)) {
    devices.insert(devices.end(), members.begin(), members.end());
  }
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::vector<PipelinePlan> plans_of(const Problem& problem, const Placement& placement) {
  std::vector<PipelinePlan> plans;
  const Cluster& cluster = problem.batch()->cluster;
  std::map<std::vector<std::string>, std::size_t> known;  // replicas on the same nodes are alike
  for (const PlacedEngine& engine : placement.engines) {
    const std::vector<std::size_t> devices = devices_of(placement, engine, cluster);
    const auto [it, fresh] = known.try_emplace(group_names(placement, engine), plans.size());
    plans.push_back(fresh ? plan_of(problem, placement, engine, devices) : plans[it->second]);
    plans.back().devices.emplace(devices.begin(), devices.end());
  }
  return plans;
}

}  // namespace

std::vector<std::int64_t> balanced_layers(const cost::PricingContext& context,
                                          const Placement& placement, const PlacedEngine& engine,
                                          const Workload& workload) {
  Problem whole = problem_of(context, placement);
  whole.batch()->workload = workload;
  whole.batch()->memory = cost::MemoryPreset::vllm;
  const LoweredProblem problem =
      part_of(whole, engine, devices_of(placement, engine, context.cluster), workload.batch_size);
  const Instance& instance = problem.instance();
  const auto order = order_from_names(instance, group_names(placement, engine));
  const std::int64_t size =
      ceil_div(workload.batch_size, static_cast<std::int64_t>(engine.stages.size()));
  const auto counts = balanced_partition(instance, order, 0, size, size, BalancedPhase::both);
  if (!counts) return {};
  return {counts->begin(), counts->end()};
}

std::vector<PipelinePlan> deployment_plans(const cost::PricingContext& context,
                                           const Placement& placement, const DataFolders& folders) {
  return plans_of(with_quality(problem_of(context, placement), folders), placement);
}

Plan deployment_plan(const cost::PricingContext& context, const Placement& placement,
                     const DataFolders& folders) {
  const Problem problem = with_quality(problem_of(context, placement), folders);
  std::vector<PipelinePlan> plans = plans_of(problem, placement);
  if (plans.size() == 1 && plans[0].devices->size() == context.cluster.devices.size()) {
    plans[0].devices.reset();
    return std::move(plans[0]);
  }
  return join_replicas(problem, std::move(plans), "manual");
}

}  // namespace tessera::solver
