// Between a solver's decision and the plan that scripts, files and the simulator see.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/numbers.h"
#include "src/plan_origin.h"
#include "src/replicas.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/offload.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {
namespace {

StageMemory serving_memory(const ServingProblem& serving, const Plan& plan, const PlanStage& stage,
                           std::int32_t degree, StagePlace place) {
  const ModelShape member = cost::shard(serving.model, degree);
  const cost::MemoryQuery query{serving.memory, serving.kv_bitwidth};
  const Device& device =
      serving.cluster.devices[static_cast<std::size_t>(stage.device_index)].device;
  StageMemory memory;
  for (std::int64_t i = 0; i < stage.num_layers; ++i) {
    const LayerShape& layer = member.layer(stage.first_layer + i);
    memory.weight_bytes +=
        cost::layer_weight_bytes(layer, stage.bitwidths[static_cast<std::size_t>(i)], query);
    memory.kv_cache_bytes += cost::layer_kv_bytes(layer, serving.workload, query);
  }
  memory.activation_bytes =
      std::max(cost::prefill_activation_bytes(member, serving.workload,
                                              plan.prefill_micro_batch_size, place, query),
               cost::decode_activation_bytes(member, serving.workload, plan.decode_micro_batch_size,
                                             place, query));
  memory.embedding_bytes = cost::embedding_bytes(member, place, query);
  memory.reserve_bytes = cost::reserve_bytes(device, query);
  memory.capacity_bytes = device.memory_bytes;
  for (double* bytes : {&memory.weight_bytes, &memory.kv_cache_bytes, &memory.activation_bytes,
                        &memory.embedding_bytes, &memory.reserve_bytes, &memory.capacity_bytes}) {
    *bytes *= degree;  // all members of a tensor-parallel group
  }
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

void add_total(StageMemory& memory) {
  memory.total_bytes = memory.weight_bytes + memory.kv_cache_bytes + memory.activation_bytes +
                       memory.embedding_bytes + memory.reserve_bytes;
}

void add_stages(Plan& plan, const Problem& problem, const Instance& instance,
                const Candidate& candidate, const Evaluation& evaluation) {
  std::vector<MeshGroup> groups;
  if (problem.serving) groups = mesh_groups(problem.serving->cluster, problem.serving->mesh);
  std::vector<std::size_t> used(instance.groups.size(), 0), before;
  std::size_t first = 0;
  for (const DeviceGroup& group : instance.groups) {
    before.push_back(first);
    first += static_cast<std::size_t>(group.count);
  }
  const std::size_t stages = candidate.order.size();
  for (std::size_t k = 0; k < stages; ++k) {
    const std::size_t g = candidate.order[k];
    PlanStage stage;
    stage.device = instance.groups[g].name;
    stage.node = instance.groups[g].node;
    stage.device_index = static_cast<std::int64_t>(
        problem.serving ? groups[g].members[used[g]].front() : before[g] + used[g]);
    ++used[g];
    stage.first_layer = static_cast<std::int64_t>(candidate.first_layer[k]);
    stage.num_layers =
        static_cast<std::int64_t>(candidate.first_layer[k + 1] - candidate.first_layer[k]);
    for (std::size_t i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
      stage.bitwidths.push_back(instance.bitwidths[candidate.bit[i]]);
    }
    stage.prefill_s = evaluation.stages[k].prefill_s;
    stage.decode_s = evaluation.stages[k].decode_s;
    const StagePlace place = place_at(k, stages);
    stage.memory = problem.serving
                       ? serving_memory(*problem.serving, plan, stage, groups[g].degree, place)
                       : instance_memory(instance, candidate, k, place);
    add_total(stage.memory);
    plan.device_order.push_back(stage.device);
    plan.stages.push_back(std::move(stage));
  }
}

constexpr std::pair<const char*, double StageMemory::*> kMemoryParts[] = {
    {"weight_bytes", &StageMemory::weight_bytes},
    {"kv_cache_bytes", &StageMemory::kv_cache_bytes},
    {"activation_bytes", &StageMemory::activation_bytes},
    {"embedding_bytes", &StageMemory::embedding_bytes},
    {"reserve_bytes", &StageMemory::reserve_bytes},
    {"total_bytes", &StageMemory::total_bytes},
    {"capacity_bytes", &StageMemory::capacity_bytes}};

/// Whether the stages are on the devices that the plan's other fields say.
std::optional<Violation> find_wrong_device(const Plan& plan, const Plan& fresh) {
  if (plan.device_order != fresh.device_order) {
    return Violation{"devices", "device_order does not name the devices of the stages"};
  }
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& a = plan.stages[k];
    const PlanStage& b = fresh.stages[k];
    if (a.node != b.node || a.device_index != b.device_index) {
      return Violation{
          "devices",
          fmt::format("stage {} is said to be on device {} ({}@{}), that is device {} "
                      "({}@{})",
                      k + 1, a.device_index, a.device, a.node, b.device_index, b.device, b.node)};
    }
  }
  return std::nullopt;
}

/// The first printed number of `plan` that differs from what the models say now.
std::optional<Violation> find_wrong_number(const Plan& plan, const Plan& fresh) {
  const auto wrong = [](const std::string& what, double printed, double computed) {
    return Violation{"objective",
                     fmt::format("{} is {}, the models give {}", what, printed, computed)};
  };
  if (!near(plan.objective, fresh.objective)) {
    return wrong("objective", plan.objective, fresh.objective);
  }
  if (!near(plan.latency_s, fresh.latency_s)) {
    return wrong("latency_s", plan.latency_s, fresh.latency_s);
  }
  if (!near(plan.throughput_tok_s, fresh.throughput_tok_s)) {
    return wrong("throughput_tok_s", plan.throughput_tok_s, fresh.throughput_tok_s);
  }
  if (!near(plan.omega, fresh.omega)) return wrong("omega", plan.omega, fresh.omega);
  if (!near(plan.mean_bitwidth, fresh.mean_bitwidth)) {
    return wrong("mean_bitwidth", plan.mean_bitwidth, fresh.mean_bitwidth);
  }
  if (plan.bound && *plan.bound > plan.objective + kNumberSlack * std::fabs(plan.objective)) {
    return wrong("bound", *plan.bound, plan.objective);
  }
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    for (const auto& [name, part] : kMemoryParts) {
      const double printed = plan.stages[k].memory.*part, computed = fresh.stages[k].memory.*part;
      if (!near(printed, computed)) {
        return wrong(fmt::format("stages[{}].memory.{}", k + 1, name), printed, computed);
      }
    }
    if (!near(plan.stages[k].prefill_s, fresh.stages[k].prefill_s) ||
        !near(plan.stages[k].decode_s, fresh.stages[k].decode_s)) {
      return wrong(fmt::format("a time of stages[{}]", k + 1), plan.stages[k].prefill_s,
                   fresh.stages[k].prefill_s);
    }
  }
  return std::nullopt;
}

constexpr double kOptimalGap = 1e-6;  ///< relative; rounding, and CBC's tolerance

}  // namespace

Plan build_plan(const Problem& problem, const Instance& instance, const PlanResult& result,
                const std::string& planner, std::shared_ptr<const Json> file) {
  const Candidate& candidate = *result.candidate;
  const Evaluation evaluation = evaluate(instance, candidate);
  Plan plan;
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
  plan.solve_s = result.solve_s;
  plan.prefill_micro_batch_size = candidate.prefill_micro_batch_size;
  plan.decode_micro_batch_size = candidate.decode_micro_batch_size;
  plan.latency_s = evaluation.latency_s;
  plan.throughput_tok_s = static_cast<double>(instance.batch_size) * instance.output_tokens /
                          std::max(evaluation.latency_s, 1e-12);
  plan.omega = evaluation.omega;
  for (std::size_t bit : candidate.bit) {
    plan.mean_bitwidth += instance.bitwidths[bit] / static_cast<double>(candidate.bit.size());
  }
  plan.notes = result.notes;
  add_stages(plan, problem, instance, candidate, evaluation);
  if (problem.serving) set_origin(plan, *problem.serving);
  plan.problem = file ? std::move(file) : std::make_shared<const Json>(to_json(problem));
  return plan;
}

Candidate candidate_of(const Instance& instance, const Plan& plan) {
  Candidate candidate;
  candidate.prefill_micro_batch_size = plan.prefill_micro_batch_size;
  candidate.decode_micro_batch_size = plan.decode_micro_batch_size;
  std::vector<std::string> names;
  for (const PlanStage& stage : plan.stages) {
    names.push_back(stage.node.empty() ? stage.device : stage.device + "@" + stage.node);
  }
  candidate.order = order_from_names(instance, names);
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
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: {} is not one of the problem's bitwidths ({})", where,
                                stage.bitwidths[i], join(known, ", ")),
                    where);
      }
      candidate.bit.push_back(static_cast<std::size_t>(it - instance.bitwidths.begin()));
    }
    candidate.first_layer.push_back(candidate.first_layer.back() + stage.bitwidths.size());
  }
  return candidate;
}

std::optional<Violation> check_plan(const Plan& plan) {
  if (!plan.replicas.empty()) return check_replicas(plan);
  const Problem problem = problem_from_json(*plan.problem, "plan.problem");
  const Instance instance = lower(problem);
  std::int64_t next = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    if (stage.first_layer != next ||
        stage.num_layers != static_cast<std::int64_t>(stage.bitwidths.size())) {
      return Violation{
          "contiguity",
          fmt::format("stage {} starts at layer {} with {} layers and {} bitwidths; "
                      "layer {} comes next",
                      k + 1, stage.first_layer, stage.num_layers, stage.bitwidths.size(), next)};
    }
    next += stage.num_layers;
  }
  if (plan.offload) return find_offload_violation(plan, problem, instance);
  const Candidate candidate = candidate_of(instance, plan);
  if (auto violation = find_violation(instance, candidate)) return violation;
  PlanResult result;
  result.candidate = candidate;
  const Plan fresh = build_plan(problem, instance, result, plan.planner);
  if (auto violation = find_wrong_device(plan, fresh)) return violation;
  return find_wrong_number(plan, fresh);
}

}  // namespace tessera::solver
