// Deployments put together, and bounds on quality, without Lua.
#include "tessera/solver/deploy/assemble.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "tessera/core/json.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/planning/planning.h"
#include "tessera/solver/problem/quality_bound.h"

namespace tessera::solver::assemble_test {
namespace {

using test::expect_error;

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

std::shared_ptr<const ModelShape> shipped(const std::string& name) {
  const std::string path = folders().require("models", name);
  return std::make_shared<ModelShape>(model_from_json(read_json_file(path), path));
}

PoolOptions pool(const std::string& cluster, serving::Role role = serving::Role::mixed) {
  PoolOptions options;
  options.role = role;
  options.model = shipped("llama-3.1-8b");
  options.cluster = std::make_shared<Cluster>(find_cluster(cluster, folders()));
  return options;
}

TEST(Assemble, MakesAnEngineOfEveryReplica) {
  DeploymentOptions options;
  options.pool = pool("4xA100-40G");
  options.pool.tensor_parallel = 2;
  const AssembledDeployment made = assemble(options, folders());
  ASSERT_EQ(made.deployment.replicas.size(), 2U);
  EXPECT_EQ(made.placement.value().engines.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<ReplicatedPlan>(plan_of(made, folders()).value()));
  const serving::Replica& engine = made.deployment.replicas.front();
  EXPECT_EQ(engine.name, "2xA100-40G");
  EXPECT_GT(engine.kv_tokens(), 100'000);
  EXPECT_TRUE(engine.async_scheduling());
  EXPECT_GT(made.deployment.api_s, 0);
  EXPECT_NE(made.source.find("llama-3.1-8b, kernel set vllm"), std::string::npos) << made.source;
}

TEST(Assemble, KeepsWhatIsSaidOfAPool) {
  DeploymentOptions options;
  options.pool = pool("1xA100-40G");
  options.pool.kv_blocks = 77;
  options.pool.usd_per_h = 3;
  options.pool.engine.async_scheduling = false;
  options.api_s = 0;
  const AssembledDeployment made = assemble(options, folders());
  const serving::Replica& engine = made.deployment.replicas.front();
  EXPECT_EQ(engine.kv_blocks, 77);
  EXPECT_EQ(engine.usd_per_h, 3);
  EXPECT_FALSE(engine.async_scheduling());
  EXPECT_EQ(made.deployment.api_s, 0);
}

PoolOptions of_experts(const std::string& model, std::int64_t spread, std::int64_t parts) {
  PoolOptions options = pool("4xA100-80G");
  options.model = shipped(model);
  options.tensor_parallel = 4;
  options.expert_parallel = spread;
  options.attention_data_parallel = parts;
  return options;
}

// Latents that every device of a group would hold are kept once where attention is in parts; each
// part holds all of attention's matrices for that.
TEST(Assemble, PartsOfAGroupHaveCachesOfTheirOwn) {
  const auto tokens = [](std::int64_t spread, std::int64_t parts) {
    DeploymentOptions options;
    options.pool = of_experts("deepseek-v2-lite", spread, parts);
    return static_cast<double>(
        assemble(options, folders()).deployment.replicas.front().kv_tokens());
  };
  const double together = tokens(1, 1);
  EXPECT_EQ(tokens(4, 1), together);
  EXPECT_GT(tokens(4, 4), 3.8 * together);
  EXPECT_LT(tokens(4, 4), 4 * together);
}

// Of two prompts on two parts each takes what one takes alone, but for the experts, which have the
// rows of both.
TEST(Assemble, PromptsGoToPartsOfTheirOwn) {
  DeploymentOptions options;
  options.pool = of_experts("qwen3-30b-a3b", 4, 4);
  const AssembledDeployment made = assemble(options, folders());
  const serving::StepCost& cost = *made.deployment.replicas.front().cost;
  const auto seconds = [&](std::int64_t num_prompts, std::int64_t tokens) {
    serving::StepLoad load;
    load.num_requests = load.num_sampled = num_prompts;
    load.tokens = num_prompts * tokens;
    for (std::int64_t i = 0; i < num_prompts; ++i) load.chunks.push_back({tokens, 0});
    return serving::to_seconds(cost.stage(load, 0));
  };
  const double one = seconds(1, 1024);
  EXPECT_GT(seconds(2, 1024), 1.02 * one);
  EXPECT_LT(seconds(4, 1024), 2.5 * one);
  EXPECT_GT(seconds(5, 1024), seconds(4, 1024) + 0.3 * one);  // a part has two of them
  EXPECT_LT(seconds(4, 1024), seconds(1, 4096));
}

TEST(Assemble, NamesWhoCannotSplitAGroup) {
  const auto refuses = [](const PoolOptions& pool, const std::string& where,
                          const std::string& what) {
    DeploymentOptions options;
    options.pool = pool;
    expect_error(ErrorCode::invalid_argument, {where, what}, [&] { assemble(options, folders()); });
  };
  PoolOptions old = of_experts("qwen3-30b-a3b", 4, 1);
  old.engine.scheduler = "vllm_v0";
  refuses(old, "deployment.expert_parallel", "vllm_v0 neither spreads experts");
  PoolOptions llama_cpp = of_experts("qwen3-30b-a3b", 1, 4);
  llama_cpp.kernel_set = "llama_cpp";
  llama_cpp.bitwidths = {8};
  refuses(llama_cpp, "deployment.attention_data_parallel", "llama.cpp neither spreads experts");
  refuses(of_experts("llama-3.1-8b", 4, 1), "deployment.expert_parallel", "has no experts");
  refuses(of_experts("qwen3-30b-a3b", 3, 1), "deployment.expert_parallel",
          "4 devices make no 3 parts");
}

TEST(Assemble, JoinsPoolsByATransferLayerByLayer) {
  DeploymentOptions options;
  options.pools =
      std::vector{pool("1xL4", serving::Role::prefill), pool("1xL4", serving::Role::decode)};
  for (PoolOptions& each : *options.pools) each.bitwidths = {8};
  options.transfer = {.bytes_per_s = 1e10, .per_layer = true};
  const AssembledDeployment made = assemble(options, folders());
  EXPECT_EQ(made.deployment.transfer.num_layers, 32);
  EXPECT_FALSE(made.placement);
  EXPECT_FALSE(plan_of(made, folders()));
  options.pools->pop_back();
  expect_error(ErrorCode::invalid_argument,
               {"there are engines of role prefill and none of role decode"},
               [&] { assemble(options, folders()); });
}

TEST(Assemble, RefusesWhatContradictsItself) {
  DeploymentOptions options;
  options.pool = pool("1xA100-40G");
  options.pool.step_cost = std::make_shared<serving::LinearStepCost>();
  expect_error(ErrorCode::invalid_argument, {"deployment.model: step_cost says what a step takes"},
               [&] { assemble(options, folders()); });
  options.pool = pool("1xA100-40G");
  options.pool.plan =
      std::make_shared<Plan>(plan_of(assemble(options, folders()), folders()).value());
  expect_error(ErrorCode::invalid_argument, {"pool.model: the plan has a model already"},
               [&] { assemble(options, folders(), "pool"); });
  options.pool.model = nullptr;
  options.pool.cluster = nullptr;
  EXPECT_EQ(assemble(options, folders()).deployment.replicas.size(), 1U);
  options.pool.host_step_s = 1e-3;
  expect_error(ErrorCode::invalid_argument, {"a plan has its kernel set's"},
               [&] { assemble(options, folders()); });
  options.pool = pool("1xT4-16G");
  expect_error(ErrorCode::invalid_argument, {"GiB"}, [&] { assemble(options, folders()); });
}

// What scripts say as quality = { max_perplexity_increase = }.
TEST(QualityBound, IsKeptByPlansWithoutLua) {
  const auto planned = [](std::optional<double> increase) {
    BatchProblem batch;
    batch.model = *shipped("opt-13b");
    batch.cluster = find_cluster("2xT4-16G+1xV100-32G", folders());
    batch.bitwidths = {3, 4, 8, 16};
    batch.indicator =
        indicator::make_constant(static_cast<std::size_t>(batch.model.num_layers), batch.bitwidths);
    batch.kernel_set = cost::find_kernel_set("modern", folders());
    Problem problem;
    problem.given = std::move(batch);
    problem.theta = 0;
    problem.bound.max_perplexity_increase = increase;
    set_quality(problem, folders());
    const PlanOutcome outcome = plan(open_problem(std::move(problem), {}), {});
    return summary_of(std::get<Plan>(outcome)).quality.value();
  };
  const Quality free = planned(std::nullopt), bound = planned(0.01);
  EXPECT_GT(free.perplexity_increase.high, 0.01);
  EXPECT_LE(bound.perplexity_increase.high, 0.01 * (1 + 1e-5));
}

TEST(QualityBound, TakesRatios) {
  const auto check = [](double increase, double recovery) {
    check_record(QualityBound{increase, recovery}, FieldPath{"quality", "."});
  };
  check(0, 1);
  expect_error(ErrorCode::out_of_range, {"quality.max_perplexity_increase", "5 % is 0.05"},
               [&] { check(5, 1); });
  expect_error(ErrorCode::out_of_range, {"quality.min_accuracy_recovery", "is not positive"},
               [&] { check(0, 0); });
}

}  // namespace
}  // namespace tessera::solver::assemble_test
