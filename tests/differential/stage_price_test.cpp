// The same work costs the same whoever asks: the planner's instance, the simulator of batches, and
// steps of continuous batching.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "placed_plans.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/plan_pipeline.h"
#include "tessera/solver/serving/step_cost.h"

namespace tessera::solver::stage_price_test {
namespace {

// Sizes at which the tables of steps are exact: of a CUDA graph, of a tile, of their contexts.
constexpr std::int64_t kRequests = 8, kPrompt = 768, kMeanContext = 1024;
constexpr std::int64_t kOutput = 2 * (kMeanContext - kPrompt);

struct Case {
  std::string model, cluster;
  DeploymentShape shape;
  std::int32_t kv_bitwidth = 16;
  cost::MemoryPreset memory = cost::MemoryPreset::physical;
};

/// Micro-batches of kRequests in decode and of one in prefill.
PipelinePlan plan_of(const Case& c) {
  DeploymentShape shape = c.shape;
  shape.kv_bitwidth = c.kv_bitwidth;
  const PipelinePlan placed = test::placed_plans(c.model, c.cluster, shape).front();
  Problem problem = placed.problem.problem();
  problem.batch()->memory = c.memory;
  Workload& workload = problem.batch()->workload;
  workload.batch_size = kRequests;
  workload.prompt_tokens = static_cast<double>(kPrompt);
  workload.output_tokens = static_cast<double>(kOutput);
  workload.max_prompt_tokens = kPrompt;
  workload.max_output_tokens = kOutput;
  const LoweredProblem lowered(std::move(problem));
  PlanResult result;
  result.status = SolveStatus::feasible;
  result.candidate = candidate_of(lowered.instance(), placed);
  result.candidate->decode_micro_batch_size = kRequests;
  return build_plan(lowered, result, "manual");
}

serving::StepLoad decode_step() {
  serving::StepLoad load;
  load.num_requests = load.tokens = load.num_sampled = kRequests;
  load.num_decodes = load.decode_tokens = kRequests;
  load.context_tokens = load.decode_context_tokens = kRequests * kMeanContext;
  return load;
}

serving::StepLoad whole_prompt() {
  serving::StepLoad load;
  load.num_requests = load.num_sampled = 1;
  load.tokens = kPrompt;
  load.chunks.push_back({kPrompt, 0});
  return load;
}

class StagePrices : public ::testing::TestWithParam<Case> {};

TEST_P(StagePrices, AreOneForPlannerBatchesAndStreams) {
  const PipelinePlan plan = plan_of(GetParam());
  const serving::BatchPipeline batches = PlanPipeline(plan).of_means();
  serving::EngineOptions engine;
  engine.max_num_batched_tokens = 1024;
  const auto streams = make_step_cost(plan, engine);
  const Instance& instance = plan.problem.instance();
  const Candidate candidate = candidate_of(instance, plan);
  ASSERT_EQ(streams->num_stages(), plan.stages.size());
  const serving::MicroBatch step{0, kRequests}, prompt{0, 1};
  const auto near = [](double seconds, double expected, double ratio) {
    EXPECT_NEAR(seconds, expected, ratio * expected);
  };
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    SCOPED_TRACE(k);
    const double decode_s =
        batches.stage_s(k, serving::BatchPhase::decode, step, kMeanContext - kPrompt);
    near(decode_s, plan.stages[k].decode_s, 1e-12);
    near(serving::to_seconds(streams->stage(decode_step(), k)), decode_s, 1e-6);
    const double prefill_s = batches.stage_s(k, serving::BatchPhase::prefill, prompt, 0);
    near(prefill_s, plan.stages[k].prefill_s, 1e-12);
    near(serving::to_seconds(streams->stage(whole_prompt(), k)), prefill_s, 1e-6);
    if (k + 1 == plan.stages.size()) break;
    const double hop_s = batches.link_s(k, serving::BatchPhase::decode, step, 1);
    EXPECT_EQ(hop_s, instance.link_s(instance.decode(kRequests), candidate.order[k],
                                     candidate.order[k + 1]));
    near(serving::to_seconds(streams->hop(decode_step(), k)), hop_s, 1e-6);
  }
}

// A correction reaches every step: scale, and the offset once, on the first stage.
TEST_P(StagePrices, AreCorrectedAsAWhole) {
  const PipelinePlan plan = plan_of(GetParam());
  const auto plain = make_step_cost(plan, {});
  const double scale = 1.25, offset_s = 3e-3;
  const auto corrected = make_step_cost(plan, {}, {.correction = {scale, offset_s}});
  for (const serving::StepLoad& load : {decode_step(), whole_prompt()}) {
    for (std::size_t k = 0; k < plan.stages.size(); ++k) {
      const double seconds = serving::to_seconds(plain->stage(load, k));
      const double expected = scale * seconds + (k == 0 ? offset_s : 0);
      EXPECT_NEAR(serving::to_seconds(corrected->stage(load, k)), expected, 1e-6 * expected);
      const double hop_s = serving::to_seconds(plain->hop(load, k));
      EXPECT_NEAR(serving::to_seconds(corrected->hop(load, k)), scale * hop_s, 1e-11);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    OfPlans, StagePrices,
    ::testing::Values(
        Case{"llama-3.1-8b", "1xA100-80G", {}}, Case{"llama-3.1-8b", "1xH100-80G", {}, 8},
        Case{"llama-3.1-8b", "1xRTX-4090", {.bitwidths = {4}}},
        Case{"llama-3.1-70b", "(4xA100-80G)", {.tensor_parallel = 4}},
        Case{"qwen3-30b-a3b", "1xH200-141G", {}},
        Case{"llama-3.1-8b", "1xA100-80G+1xA6000", {.pipeline_parallel = 2}},
        Case{"opt-1.3b", "2xT4-16G", {.pipeline_parallel = 2}},
        Case{"opt-1.3b", "2xT4-16G", {.pipeline_parallel = 2}, 16, cost::MemoryPreset::llm_pq}));

}  // namespace
}  // namespace tessera::solver::stage_price_test
