// A plan as the simulator's pipeline: every unit with its own size, chunk and context.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "src/serving_costs.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/cost/latency.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {
namespace {

/// What the pipeline's functions need, kept alive by them.
struct Context {
  Plan plan;
  Problem problem;
  Instance instance;
  Candidate candidate;
  std::vector<std::unique_ptr<cost::LatencyModel>> models;  ///< [stage]
  std::vector<std::vector<std::size_t>> members;            ///< [stage] devices of the cluster
  std::map<std::tuple<std::size_t, int, std::int64_t, std::int64_t>, double> known;
};

cost::LayerWork work_of(const Workload& workload, sim::Phase phase, double size,
                        std::int64_t index) {
  if (phase == sim::Phase::decode) {
    // Round r extends a context of the prompt and the r - 1 tokens decoded after the first.
    return {cost::Phase::decode, size, 1, workload.prompt_tokens + static_cast<double>(index)};
  }
  double before = 0;
  for (std::int64_t chunk = 0; chunk < index; ++chunk) {
    before += static_cast<double>(workload.tokens_in_chunk(chunk));
  }
  return {cost::Phase::prefill, size, static_cast<double>(workload.tokens_in_chunk(index)), before};
}

double serving_stage_s(Context& context, std::size_t k, sim::Phase phase, std::int64_t size,
                       std::int64_t index) {
  const ServingProblem& serving = *context.problem.serving;
  const PlanStage& stage = context.plan.stages[k];
  const cost::LayerWork work = work_of(serving.workload, phase, static_cast<double>(size), index);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> counts;
  for (std::size_t i = 0; i < stage.bitwidths.size(); ++i) {
    const auto layer = static_cast<std::size_t>(stage.first_layer) + i;
    ++counts[{serving.model.layer_class[layer], stage.bitwidths[i]}];
  }
  double total = 0;
  for (const auto& [kind, count] : counts) {
    const LayerShape& layer = serving.model.layer_classes[static_cast<std::size_t>(kind.first)];
    total += static_cast<double>(count) *
             context.models[k]->layer_s(layer, kind.second, serving.kv_bitwidth, work).value;
  }
  const bool first = k == 0, last = k + 1 == context.plan.stages.size();
  const bool head_first = serving.memory == cost::MemoryPreset::llm_pq;
  const bool samples = phase == sim::Phase::decode || index + 1 == serving.workload.num_chunks();
  if (first)
    total += context.models[k]->embedding_s(serving.model, work.batch_size * work.tokens).value;
  if (samples && (head_first ? first : last)) {
    total += context.models[k]->lm_head_s(serving.model, work.batch_size).value;
  }
  return total;
}

double instance_stage_s(Context& context, std::size_t k, sim::Phase phase, std::int64_t size) {
  const Instance& instance = context.instance;
  const Candidate& candidate = context.candidate;
  const PhaseCosts& costs =
      phase == sim::Phase::prefill ? instance.prefill(size) : instance.decode(size);
  double total = 0;
  for (std::size_t i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
    total += instance.layer_s(costs, candidate.order[k], instance.layer_class[i], candidate.bit[i]);
  }
  if (k == 0) total += costs.first_s[candidate.order[k]];
  if (k + 1 == candidate.order.size()) total += costs.last_s[candidate.order[k]];
  return total;
}

double link_s(Context& context, std::size_t k, sim::Phase phase, std::int64_t size,
              std::int64_t index) {
  const std::vector<std::size_t>& order = context.candidate.order;
  if (!context.problem.serving) {
    const PhaseCosts& costs = phase == sim::Phase::prefill ? context.instance.prefill(size)
                                                           : context.instance.decode(size);
    return context.instance.link_s(costs, order[k], order[k + 1]);
  }
  const ServingProblem& serving = *context.problem.serving;
  const Link link = slowest_link(serving.cluster, context.members[k], context.members[k + 1]);
  const double tokens = phase == sim::Phase::decode
                            ? 1
                            : static_cast<double>(serving.workload.tokens_in_chunk(index));
  const double bytes = static_cast<double>(size) * tokens *
                       static_cast<double>(serving.model.hidden_size) * 2;  // FP16 hidden states
  return link.latency_s + bytes / link.bytes_per_s;
}

double return_s(const Context& context, std::int64_t size) {
  if (!context.problem.serving || context.members.size() < 2) return 0;
  const Link link = slowest_link(context.problem.serving->cluster, context.members.back(),
                                 context.members.front());
  return link.latency_s + static_cast<double>(size) * 4 / link.bytes_per_s;  // 32-bit token ids
}

std::string stage_name(const PlanStage& stage, std::size_t k) {
  if (stage.num_layers == 0) return fmt::format("stage {}: {} (no layers)", k, stage.device);
  return fmt::format("stage {}: {} (layers {}-{})", k, stage.device, stage.first_layer,
                     stage.first_layer + stage.num_layers - 1);
}

}  // namespace

sim::Pipeline pipeline_of(const Plan& plan) {
  if (plan.offload) {
    throw Error(ErrorCode::unsupported,
                "an offloading plan is priced by FlexGen's cost model alone (latency_s, "
                "throughput_tok_s); the event simulation knows no host memory and no disk",
                "plan.offload");
  }
  if (!plan.replicas.empty()) {
    throw Error(ErrorCode::invalid_argument, "a plan with replicas is a pipeline for each of them",
                "plan.replicas");
  }
  // A file may say anything; what follows indexes layers and devices by it.
  if (const auto violation = check_plan(plan)) {
    throw Error(ErrorCode::invalid_argument, "the plan is broken: " + violation->message, "plan");
  }
  auto context = std::make_shared<Context>();
  context->plan = plan;
  context->problem = problem_from_json(*plan.problem, "plan.problem");
  context->instance = lower(context->problem);
  context->candidate = candidate_of(context->instance, plan);
  if (context->problem.serving) {
    for (const auto& members : stage_members(plan, *context->problem.serving)) {
      context->models.push_back(latency_model_of(*context->problem.serving, members));
      context->members.push_back(members);
    }
  }
  sim::Pipeline pipeline;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    pipeline.stage_names.push_back(stage_name(plan.stages[k], k));
  }
  pipeline.batch_size = context->instance.batch_size;
  pipeline.prefill_micro_batch_size = plan.prefill_micro_batch_size;
  pipeline.decode_micro_batch_size = plan.decode_micro_batch_size;
  pipeline.num_chunks = context->instance.num_chunks;
  pipeline.output_tokens = std::max<std::int64_t>(1, std::llround(context->instance.output_tokens));
  pipeline.stage_s = [context](std::size_t k, sim::Phase phase, std::int64_t size,
                               std::int64_t index) {
    const auto key =
        std::make_tuple(k, static_cast<int>(phase), size, context->problem.serving ? index : 0);
    const auto it = context->known.find(key);
    if (it != context->known.end()) return it->second;
    const double seconds = context->problem.serving
                               ? serving_stage_s(*context, k, phase, size, index)
                               : instance_stage_s(*context, k, phase, size);
    return context->known.emplace(key, seconds).first->second;
  };
  pipeline.link_s = [context](std::size_t k, sim::Phase phase, std::int64_t size,
                              std::int64_t index) {
    return link_s(*context, k, phase, size, index);
  };
  pipeline.return_s = [context](std::int64_t size) { return return_s(*context, size); };
  return pipeline;
}

}  // namespace tessera::solver
