// Between a solver's decision and the plan that scripts, files and the simulator see.

#include "tessera/solver/plan/build_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan_origin.h"
#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

void add_total(StageMemory& memory) {
  memory.total_bytes = memory.weight_bytes + memory.kv_cache_bytes + memory.activation_bytes +
                       memory.embedding_bytes + memory.reserve_bytes;
}

StageMemory batch_memory(const BatchProblem& batch, const PipelinePlan& plan,
                         const PlanStage& stage, std::size_t num_members, StagePlace place) {
  const auto degree = static_cast<std::int32_t>(num_members);
  const ModelShape member = cost::shard(batch.model, degree, batch.split);
  const cost::MemoryQuery query = memory_query(batch);
  const Device& device = batch.device(static_cast<std::size_t>(stage.device_index));
  const double elsewhere = stage.attention ? stage.attention->ratio : 0;
  cost::MemoryAccount account = cost::empty_account(device, query, degree);
  for (std::int64_t i = 0; i < stage.num_layers; ++i) {
    const LayerShape& layer = member.layer(stage.first_layer + i);
    account.weight_bytes +=
        cost::layer_weight_bytes(layer, stage.bitwidths[static_cast<std::size_t>(i)], query);
    account.kv_bytes +=
        cost::layer_kv_bytes(cost::kept_of(layer, elsewhere), batch.workload, query);
  }
  account.activation_bytes =
      std::max(cost::prefill_activation_bytes(member, batch.workload, plan.prefill_micro_batch_size,
                                              place, query),
               cost::decode_activation_bytes(member, batch.workload, plan.decode_micro_batch_size,
                                             place, query));
  account.embedding_bytes = cost::embedding_bytes(member, place, query);
  StageMemory memory;  // of all members of a tensor-parallel group
  memory.weight_bytes = degree * account.weight_bytes;
  memory.kv_cache_bytes = degree * account.kv_bytes;
  memory.activation_bytes = degree * account.activation_bytes;
  memory.embedding_bytes = degree * account.embedding_bytes;
  memory.reserve_bytes = degree * account.reserve_bytes;
  memory.capacity_bytes = degree * account.capacity_bytes;
  return memory;
}

/// An instance file gives one number per layer: weights and KV cache together, reported as weights.
StageMemory instance_memory(const Instance& instance, const Candidate& candidate, std::size_t k,
                            StagePlace place) {
  StageMemory memory;
  for (std::size_t i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
    memory.weight_bytes +=
        instance.layer_bytes_at(candidate.order[k], instance.layer_class[i], candidate.bit[i]);
  }
  const std::size_t g = candidate.order[k];
  memory.embedding_bytes = instance.embedding_bytes_at(g, place);
  memory.activation_bytes =
      instance.fixed_bytes(g, place, instance.prefill(candidate.prefill_micro_batch_size),
                           instance.decode(candidate.decode_micro_batch_size)) -
      memory.embedding_bytes;
  memory.capacity_bytes = instance.groups[g].usable_bytes;
  return memory;
}

StageMemory attention_memory(const BatchProblem& batch, const PipelinePlan& plan,
                             const PlanStage& stage) {
  const StageAttention& there = *stage.attention;
  const cost::MemoryAccount account = attender_memory(
      batch, {static_cast<std::size_t>(there.device_index), there.ratio}, stage.first_layer,
      stage.num_layers, plan.prefill_micro_batch_size, plan.decode_micro_batch_size);
  StageMemory memory;
  memory.kv_cache_bytes = account.kv_bytes;
  memory.activation_bytes = account.activation_bytes;
  memory.reserve_bytes = account.reserve_bytes;
  memory.capacity_bytes = account.capacity_bytes;
  add_total(memory);
  return memory;
}

StageAttention attention_on(const BatchProblem& batch, const cost::AttentionElsewhere& elsewhere) {
  StageAttention attention;
  const ClusterDevice& slot = batch.cluster.devices[elsewhere.device];
  attention.device = slot.device.name;
  attention.node = batch.cluster.nodes[slot.node_index].name;
  attention.device_index = static_cast<std::int64_t>(elsewhere.device);
  attention.ratio = elsewhere.ratio;
  return attention;
}

/// Devices by position: of an instance the groups' devices are numbered one group after the other.
std::vector<std::size_t> instance_devices(const Instance& instance, const Candidate& candidate) {
  std::vector<std::size_t> next, devices;
  std::size_t first = 0;
  for (const DeviceGroup& group : instance.groups) {
    next.push_back(first);
    first += static_cast<std::size_t>(group.count);
  }
  for (const std::size_t g : candidate.order) devices.push_back(next[g]++);
  return devices;
}

void add_stages(PipelinePlan& plan, const Candidate& candidate, const Evaluation& evaluation) {
  const Instance& instance = plan.problem.instance();
  const BatchProblem* batch = plan.problem.batch();
  std::vector<std::vector<std::size_t>> members;
  if (batch != nullptr) {
    members = stage_members(*batch, candidate.order);
  } else {
    for (const std::size_t device : instance_devices(instance, candidate)) {
      members.push_back({device});
    }
  }
  const std::size_t stages = candidate.order.size();
  for (std::size_t k = 0; k < stages; ++k) {
    const std::size_t g = candidate.order[k];
    PlanStage stage;
    stage.device = instance.groups[g].name;
    stage.node = instance.groups[g].node;
    stage.device_index = static_cast<std::int64_t>(members[k].front());
    stage.first_layer = static_cast<std::int64_t>(candidate.first_layer[k]);
    stage.num_layers =
        static_cast<std::int64_t>(candidate.first_layer[k + 1] - candidate.first_layer[k]);
    for (std::size_t i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
      stage.bitwidths.push_back(instance.bitwidths[candidate.bit[i]]);
    }
    stage.prefill_s = evaluation.stages[k].prefill_s;
    stage.decode_s = evaluation.stages[k].decode_s;
    if (batch != nullptr) {
      if (const auto elsewhere = attention_of(*batch, members[k].front())) {
        stage.attention = attention_on(*batch, *elsewhere);
        stage.attention->memory = attention_memory(*batch, plan, stage);
      }
    }
    const StagePlace place = place_at(k, stages);
    stage.memory = batch != nullptr ? batch_memory(*batch, plan, stage, members[k].size(), place)
                                    : instance_memory(instance, candidate, k, place);
    add_total(stage.memory);
    plan.device_order.push_back(stage.device);
    plan.stages.push_back(std::move(stage));
  }
}

constexpr double kOptimalGap = 1e-6;  ///< relative; rounding, and CBC's tolerance

}  // namespace

PipelinePlan build_plan(const LoweredProblem& problem, const PlanResult& result,
                        const std::string& planner) {
  const Instance& instance = problem.instance();
  const Candidate& candidate = *result.candidate;
  const Evaluation evaluation = evaluate(instance, candidate);
  PipelinePlan plan(problem);
  plan.planner = planner;
  plan.objective = evaluation.objective;
  plan.bound = result.bound;
  if (result.bound) {
    const double size = std::max(std::fabs(plan.objective), 1e-12);
    plan.gap = std::max(0.0, plan.objective - *result.bound) / size;
  }
  // Planners call a plan optimal that is within the gap asked for; a reader takes the word as it
  // is.
  plan.status = result.status == SolveStatus::optimal && plan.gap.value_or(0) <= kOptimalGap
                    ? PlanStatus::optimal
                    : PlanStatus::feasible;
  if (result.stopped_by) plan.stopped_by = named<PlanStop>(name_of(*result.stopped_by));
  plan.solve_s = result.solve_s;
  plan.prefill_micro_batch_size = candidate.prefill_micro_batch_size;
  plan.decode_micro_batch_size = candidate.decode_micro_batch_size;
  plan.latency_s = evaluation.latency_s;
  plan.throughput_tok_s = static_cast<double>(instance.batch_size) * instance.output_tokens /
                          std::max(evaluation.latency_s, 1e-12);
  plan.omega = evaluation.omega;
  std::int64_t bits = 0;
  for (std::size_t bit : candidate.bit) bits += instance.bitwidths[bit];
  plan.mean_bitwidth = static_cast<double>(bits) / static_cast<double>(candidate.bit.size());
  plan.notes = result.notes;
  add_stages(plan, candidate, evaluation);
  if (problem.batch() != nullptr) {
    set_origin(plan, candidate);
    std::vector<std::int32_t> bitwidths;
    for (const std::size_t bit : candidate.bit) bitwidths.push_back(instance.bitwidths[bit]);
    plan.quality = quality_of(*problem.batch(), bitwidths);
  }
  return plan;
}

Candidate candidate_of(const Instance& instance, const PipelinePlan& plan) {
  Candidate candidate;
  candidate.prefill_micro_batch_size = plan.prefill_micro_batch_size;
  candidate.decode_micro_batch_size = plan.decode_micro_batch_size;
  std::vector<std::string> names;
  for (const PlanStage& stage : plan.stages) {
    names.push_back(stage.node.empty() ? stage.device : stage.device + "@" + stage.node);
  }
  candidate.order = order_from_names(instance, names);
  const BatchProblem* batch = plan.problem.batch();
  if (batch != nullptr && !batch->attention.empty()) {
    // A device that divides attention may have the name of others that do not.
    std::vector<std::size_t> devices;
    for (const PlanStage& stage : plan.stages) {
      devices.push_back(static_cast<std::size_t>(stage.device_index));
    }
    candidate.order = groups_on(*batch, devices);
  }
  candidate.first_layer.push_back(0);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    for (std::size_t i = 0; i < stage.bitwidths.size(); ++i) {
      const auto it =
          std::find(instance.bitwidths.begin(), instance.bitwidths.end(), stage.bitwidths[i]);
      if (it == instance.bitwidths.end()) {
        std::vector<std::string> known;
        for (std::int32_t bit : instance.bitwidths) known.push_back(std::to_string(bit));
        const std::string where = fmt::format("stages[{}].bitwidths[{}]", k + 1, i + 1);
        refuse(where, "{} is not one of the problem's bitwidths ({})", stage.bitwidths[i],
               join(known, ", "));
      }
      candidate.bit.push_back(static_cast<std::size_t>(it - instance.bitwidths.begin()));
    }
    candidate.first_layer.push_back(candidate.first_layer.back() + stage.bitwidths.size());
  }
  return candidate;
}

}  // namespace tessera::solver
