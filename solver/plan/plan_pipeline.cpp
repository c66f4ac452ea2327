// A plan as the simulator's pipeline: every unit with its own size, chunk and context.

#include "tessera/solver/plan/plan_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tessera/core/error.h"
#include "tessera/core/units.h"
#include "tessera/cost/stage_price.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"

namespace tessera::solver {

/// What the pipeline's functions need, kept alive by them.
struct PlanPipeline::Context {
  PipelinePlan plan;
  Candidate candidate;
  std::optional<cost::PipelinePrice> price;  ///< absent for an instance file

  const Instance& instance() const { return plan.problem.instance(); }
  /// Null for an instance file.
  const BatchProblem* batch() const { return plan.problem.batch(); }
};

namespace {

using Context = PlanPipeline::Context;

/// A batch of requests of several lengths.
struct Batch {
  std::vector<TracedRequest> requests;
  Batching batching = Batching::padded;
};

/// Requests that have their last prompt token or a decoded one in a pass are sampled.
cost::Pass alike(const Workload& workload, serving::BatchPhase phase, double size,
                 std::int64_t index) {
  if (phase == serving::BatchPhase::decode) {
    // Round r extends a context of the prompt and the r - 1 tokens decoded after the first.
    return {{cost::Phase::decode, size, 1, workload.prompt_tokens + static_cast<double>(index)},
            size};
  }
  const auto chunks = cost::units_of(workload, size, cost::Phase::prefill);
  return {chunks[static_cast<std::size_t>(index)], index + 1 == std::ssize(chunks) ? size : 0};
}

/// The rectangle that a runtime without ragged batches computes; outputs end where they end.
void pad(std::vector<TracedRequest>& requests) {
  std::int64_t longest = 1;
  for (const TracedRequest& request : requests) {
    longest = std::max(longest, request.prompt_tokens);
  }
  for (TracedRequest& request : requests) request.prompt_tokens = longest;
}

/// One request's share of a pass: its new tokens, those before them, and whether it is sampled.
struct Share {
  double tokens = 0, before = 0;
  bool sampled = false;
};

Share share_of(const Workload& workload, const Batch& batch, const TracedRequest& request,
               serving::BatchPhase phase, std::int64_t index) {
  if (phase == serving::BatchPhase::decode) {
    if (batch.batching == Batching::ragged && index >= request.output_tokens) return {};
    return {1, static_cast<double>(request.prompt_tokens + index), true};
  }
  const std::int64_t chunk = workload.chunk_tokens.value_or(request.prompt_tokens);
  const std::int64_t before = index * chunk, left = request.prompt_tokens - before;
  if (left <= 0) return {};
  return {static_cast<double>(std::min(chunk, left)), static_cast<double>(before), left <= chunk};
}

/// Requests of several lengths as so many of one length: with as many rows for the matrices, and as
/// many pairs of tokens for attention, which a larger context stands for.
cost::Pass differing(const Workload& workload, const Batch& batch, const serving::MicroBatch& part,
                     serving::BatchPhase phase, std::int64_t index) {
  double active = 0, rows = 0, pairs = 0, sampled = 0;
  for (std::int64_t i = 0; i < part.size; ++i) {
    const auto& request = batch.requests[static_cast<std::size_t>(part.first_request + i)];
    const Share share = share_of(workload, batch, request, phase, index);
    if (share.tokens == 0) continue;
    ++active;
    rows += share.tokens;
    pairs += share.tokens * (share.before + share.tokens / 2);
    if (share.sampled) ++sampled;
  }
  const double tokens = rows / active;  // a pass has work for its longest request
  const auto work_phase =
      phase == serving::BatchPhase::decode ? cost::Phase::decode : cost::Phase::prefill;
  return {{work_phase, active, tokens, std::max(0.0, pairs / rows - tokens / 2)}, sampled};
}

double instance_stage_s(const Context& context, std::size_t k, const PhaseCosts& costs) {
  const Instance& instance = context.instance();
  const Candidate& candidate = context.candidate;
  double total = 0;
  for (std::size_t i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
    total += instance.layer_s(costs, candidate.order[k], instance.layer_class[i], candidate.bit[i]);
  }
  if (k == 0) total += costs.first_s[candidate.order[k]];
  if (k + 1 == candidate.order.size()) total += costs.last_s[candidate.order[k]];
  return total;
}

std::string stage_name(const PlanStage& stage, std::size_t k) {
  if (stage.num_layers == 0) return fmt::format("stage {}: {} (no layers)", k, stage.device);
  return fmt::format("stage {}: {} (layers {}-{})", k, stage.device, stage.first_layer,
                     stage.first_layer + stage.num_layers - 1);
}

void refuse_what_has_no_pipeline(const PipelinePlan& plan) {
  if (plan.offload) {
    throw Error(ErrorCode::unsupported,
                "an offloading plan is priced by FlexGen's cost model alone (latency_s, "
                "throughput_tok_s); the event simulation knows no host memory and no disk",
                "plan.offload");
  }
  // A file may say anything; what follows indexes layers and devices by it.
  if (const auto violation = check_plan(plan)) {
    throw Error(ErrorCode::invalid_argument, "the plan is broken: " + violation->message, "plan");
  }
}

/// Times of an abstract instance depend on the size of a micro-batch only.
void set_instance_times(serving::BatchPipeline& pipeline,
                        const std::shared_ptr<const Context>& context) {
  const auto costs = [context](serving::BatchPhase phase, std::int64_t size) -> const PhaseCosts& {
    return phase == serving::BatchPhase::prefill ? context->instance().prefill(size)
                                                 : context->instance().decode(size);
  };
  pipeline.stage_s = [context, costs](std::size_t k, serving::BatchPhase phase,
                                      const serving::MicroBatch& batch, std::int64_t) {
    return instance_stage_s(*context, k, costs(phase, batch.size));
  };
  pipeline.link_s = [context, costs](std::size_t k, serving::BatchPhase phase,
                                     const serving::MicroBatch& batch, std::int64_t) {
    const std::vector<std::size_t>& order = context->candidate.order;
    return context->instance().link_s(costs(phase, batch.size), order[k], order[k + 1]);
  };
}

/// @param pass_of what a micro-batch does in its chunk or round
template <typename PassOf>
void set_serving_times(serving::BatchPipeline& pipeline,
                       const std::shared_ptr<const Context>& context, const PassOf& pass_of) {
  pipeline.stage_s = [context, pass_of](std::size_t k, serving::BatchPhase phase,
                                        const serving::MicroBatch& batch, std::int64_t index) {
    return context->price->pass(k, pass_of(batch, phase, index)).total_s();
  };
  pipeline.host_s = [context, pass_of](serving::BatchPhase phase, const serving::MicroBatch& batch,
                                       std::int64_t index) {
    return context->price->host_s(pass_of(batch, phase, index));
  };
  pipeline.link_s = [context, pass_of](std::size_t k, serving::BatchPhase phase,
                                       const serving::MicroBatch& batch, std::int64_t index) {
    return context->price->hop_s(k, pass_of(batch, phase, index).rows());
  };
}

}  // namespace

PlanPipeline::PlanPipeline(const PipelinePlan& plan) {
  refuse_what_has_no_pipeline(plan);
  auto context = std::make_shared<Context>(
      Context{plan, candidate_of(plan.problem.instance(), plan), std::nullopt});
  context_ = context;
  if (context->batch() == nullptr) return;
  const BatchProblem& batch = *context->batch();
  const auto members = stage_members(batch, context->candidate.order);
  std::vector<cost::Stage> stages;
  for (std::size_t k = 0; k < members.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    stages.push_back({members[k], place_at(k, members.size()),
                      cost::count_layers(batch.model, stage.first_layer, stage.bitwidths),
                      attention_of(batch, members[k].front())});
  }
  context->price.emplace(batch, std::move(stages), batch.kv_bitwidth);
}

const Problem& PlanPipeline::problem() const { return context_->plan.problem.problem(); }

serving::BatchPipeline PlanPipeline::of_means() const {
  const std::shared_ptr<const Context> context = context_;
  serving::BatchPipeline pipeline;
  for (std::size_t k = 0; k < context->plan.stages.size(); ++k) {
    pipeline.stage_names.push_back(stage_name(context->plan.stages[k], k));
  }
  pipeline.batch_size = context->instance().batch_size;
  pipeline.prefill_micro_batch_size = context->plan.prefill_micro_batch_size;
  pipeline.decode_micro_batch_size = context->plan.decode_micro_batch_size;
  pipeline.num_chunks = context->instance().num_chunks;
  pipeline.output_tokens =
      std::max<std::int64_t>(1, std::llround(context->instance().output_tokens));
  if (context->batch() == nullptr) {
    pipeline.return_s = [](std::int64_t) { return 0.0; };
    set_instance_times(pipeline, context);
    return pipeline;
  }
  pipeline.return_s = [context](std::int64_t size) {
    return context->price->return_s(static_cast<double>(size));
  };
  set_serving_times(
      pipeline, context,
      [context](const serving::MicroBatch& batch, serving::BatchPhase phase, std::int64_t index) {
        return alike(context->batch()->workload, phase, static_cast<double>(batch.size), index);
      });
  return pipeline;
}

serving::BatchPipeline PlanPipeline::of_batch(const std::vector<TracedRequest>& requests,
                                              Batching batching) const {
  const std::shared_ptr<const Context> context = context_;
  if (context->batch() == nullptr) {
    throw Error(ErrorCode::unsupported, "an abstract instance has requests of one length only",
                "plan.problem");
  }
  const Workload& workload = context->batch()->workload;
  serving::BatchPipeline pipeline = of_means();
  pipeline.batch_size = static_cast<std::int64_t>(requests.size());
  const auto batch = std::make_shared<Batch>(Batch{requests, batching});
  if (batching == Batching::padded) pad(batch->requests);
  for (const TracedRequest& request : batch->requests) {
    const std::int64_t num_chunks =
        workload.chunk_tokens ? ceil_div(request.prompt_tokens, *workload.chunk_tokens) : 1;
    pipeline.requests.push_back({request.arrival_s, num_chunks, request.output_tokens});
  }
  set_serving_times(pipeline, context,
                    [context, batch](const serving::MicroBatch& part, serving::BatchPhase phase,
                                     std::int64_t index) {
                      return differing(context->batch()->workload, *batch, part, phase, index);
                    });
  return pipeline;
}

}  // namespace tessera::solver
