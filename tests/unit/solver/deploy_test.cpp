// Configurations, bounds and the search of deployments, without Lua.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/core/cluster_part.h"
#include "tessera/core/json.h"
#include "tessera/solver/deploy/plan_serving.h"
#include "tessera/solver/deploy/priced_configurations.h"
#include "tessera/solver/deploy/runtime_rules.h"

namespace tessera::solver::deploy_test {
namespace {

const DataFolders& folders() {
  static const DataFolders all({std::string(TESSERA_SOURCE_DIR) + "/datasets"});
  return all;
}

std::shared_ptr<const ModelShape> shipped(const std::string& name) {
  const std::string path = folders().require("models", name);
  return std::make_shared<ModelShape>(model_from_json(read_json_file(path), path));
}

serving::Slo slo_of(double ttft_s, double tpot_s) {
  serving::Slo slo;
  slo.ttft_s.of_all = {{serving::Statistic::p99, ttft_s}};
  slo.tpot_s.of_all = {{serving::Statistic::p99, tpot_s}};
  return slo;
}

serving::TrafficOptions traffic_of(std::int64_t prompt_tokens, std::int64_t output_tokens) {
  serving::TrafficOptions traffic;
  traffic.rate_per_s = 6;
  traffic.prompt_tokens = serving::fixed_length(prompt_tokens);
  traffic.output_tokens = serving::fixed_length(output_tokens);
  return traffic;
}

ServingRequest request_of(const std::string& cluster, ServingGoal goal) {
  ServingRequest request;
  request.model = shipped("llama-3.1-8b");
  request.cluster = std::make_shared<Cluster>(find_cluster(cluster, folders()));
  request.traffic = traffic_of(300, 40);
  request.slos = {slo_of(1, 0.08)};
  request.objective = goal;
  request.limit = 3;
  request.num_requests = 100;
  return request;
}

TEST(Configurations, TypesStandInTheOrderOfTheCluster) {
  const Cluster cluster = find_cluster("(2xL4+2xA100-40G)+3xL4", folders());
  const auto types = device_types(cluster);
  ASSERT_EQ(types.size(), 2U);
  EXPECT_EQ(types[0]->name, "L4");
  EXPECT_EQ(types[0]->count, 5);
  EXPECT_EQ(types[0]->widest(), 3);
  EXPECT_EQ(types[1]->widest(), 2);
}

// Parts stand beside each other, and engines of a part keep their place in a cluster of their own.
TEST(Configurations, PartsHaveDevicesOfTheirOwn) {
  for (const char* name : {"8xL4", "2x(3xL4)", "(2xL4+1xA100-40G)+3xL4", "5xL4+2xL4+1xL4"}) {
    const ServingRequest request = request_of(name, ServingGoal::rate);
    const ServingSearch search(request, folders(), "request");
    auto engine = std::make_shared<PricedConfiguration>();
    engine->type = search.types().front();
    for (const std::int64_t degree : {1, 2}) {
      engine->tensor_parallel = degree;
      for (const std::int64_t stages : {1, 2, 3}) {
        engine->pipeline_parallel = stages;
        const std::int64_t room = room_for(*request.cluster, engine->placed());
        EXPECT_FALSE(search.place({{engine, room + 1}})) << name;
        if (room < 2) continue;
        const auto placed = search.place({{engine, 1}, {engine, room - 1}}).value();
        std::set<std::size_t> used;
        for (std::size_t i = 0; i < 2; ++i) {
          const std::int64_t count = i == 0 ? 1 : room - 1;
          used.insert(placed[i].begin(), placed[i].end());
          EXPECT_EQ(room_for(part_of(*request.cluster, placed[i]), engine->placed()), count)
              << name << " " << degree << "x" << stages;
        }
        EXPECT_EQ(std::ssize(used), room * engine->gpus()) << name;
      }
    }
  }
}

// A caller of their own: what a fleet would price, without one simulated request.
TEST(Configurations, ArePricedWithoutSimulation) {
  const ServingRequest request = request_of("4xL4+2xA100-40G", ServingGoal::rate);
  ServingSearch search(request, folders(), "request");
  for (const auto& type : search.types()) {
    const auto priced = priced_configurations(search, type);
    ASSERT_FALSE(priced.empty());
    for (const auto& c : priced) {
      EXPECT_GT(c->bounds.rate_per_s, 0) << c->name();
      EXPECT_LE(c->estimate_per_s, c->bounds.rate_per_s) << c->name();
      EXPECT_LE(c->bounds.rate_per_s, c->bounds.decode_rate_per_s) << c->name();
    }
  }
  EXPECT_EQ(search.simulated, 0);
  const bool said =
      std::any_of(search.refusals.begin(), search.refusals.end(), [](const Refusal& refusal) {
        return refusal.engine == "A100-40G, 8 bits, KV cache 8" &&
               refusal.reason.find("needs compute capability 8.9") != std::string::npos;
      });
  EXPECT_TRUE(said);
}

// Above what pools of one each sustain, and engines that share phases.
TEST(Bounds, AreAboveWhatIsSimulated) {
  struct Case {
    const char* model;
    const char* cluster;
    std::int64_t prompt_tokens, output_tokens;
    double tpot_s;
  };
  for (const Case& c :
       {Case{"llama-3.1-8b", "1xL4", 300, 100, 0.08}, Case{"llama-3.1-8b", "1xL4", 3000, 50, 0.1},
        Case{"llama-3.1-8b", "1xL4", 12000, 20, 0.1},
        Case{"opt-1.3b", "1xA100-40G", 40, 400, 0.03}}) {
    DeploymentOptions alone;
    alone.pool.model = shipped(c.model);
    alone.pool.cluster = std::make_shared<Cluster>(find_cluster(c.cluster, folders()));
    alone.pool.bitwidths = {8};
    alone.pool.engine.max_num_seqs = 512;
    alone.pool.engine.enable_prefix_caching = false;
    DeploymentOptions apart = alone;
    apart.pools = std::vector{alone.pool, alone.pool};
    apart.pools->front().role = serving::Role::prefill;
    apart.pools->back().role = serving::Role::decode;
    apart.transfer = {.bytes_per_s = 1e12, .per_layer = true};
    const AssembledDeployment one = assemble(alone, folders()), two = assemble(apart, folders());
    const MeanLengths lengths{static_cast<double>(c.prompt_tokens),
                              static_cast<double>(c.output_tokens)};
    const EngineBounds bounds =
        bounds_of(one.deployment.replicas.front(), lengths, {512, 8192, c.tpot_s});
    // Forty stays of a batch's requests, and a limit on TTFT that queues reach in that time: a run
    // that starts empty passes the bound by about a third of a stay.
    serving::TrafficOptions options = traffic_of(c.prompt_tokens, c.output_tokens);
    options.num_requests = std::max<std::int64_t>(
        4000, static_cast<std::int64_t>(
                  std::ceil(40 * bounds.rate_per_s * lengths.output_tokens * c.tpot_s)));
    const serving::Traffic traffic = serving::make_traffic(options, "traffic");
    const auto sustained = [&](const AssembledDeployment& deployment, double guess_per_s) {
      serving::MaxRateOptions search;
      search.summary = summary_options(deployment, traffic);
      search.summary.slos = {slo_of(10, c.tpot_s)};
      search.guess_per_s = guess_per_s;
      return serving::max_rate(deployment.deployment, traffic, search).rate_per_s;
    };
    const double both = std::min(bounds.prefill_rate_per_s, bounds.decode_rate_per_s);
    const double pools = sustained(two, both), shared = sustained(one, bounds.rate_per_s);
    EXPECT_GT(pools, 0);
    EXPECT_LE(pools, kFiniteRun * both) << c.cluster << " " << c.prompt_tokens;
    EXPECT_GT(shared, 0);
    EXPECT_LE(shared, kFiniteRun * bounds.rate_per_s) << c.cluster << " " << c.prompt_tokens;
  }
}

TEST(RuntimeRules, SayWhatVllmCannotRun) {
  const auto obstacle = [](const char* device, std::int32_t bitwidth, std::int32_t kv_bitwidth) {
    const Cluster cluster = find_cluster(device, folders());
    Configuration c{.type = device_types(cluster).front()};
    c.bitwidth = bitwidth;
    c.kv_bitwidth = kv_bitwidth;
    EXPECT_EQ(kernel_obstacle(Runtime::tessera, {}, cluster, c), "");
    return kernel_obstacle(Runtime::vllm, {}, cluster, c);
  };
  EXPECT_EQ(obstacle("1xL4", 8, 8), "");
  EXPECT_EQ(obstacle("1xL4", 3, 16), "vLLM has no kernel for 3-bit weights");
  EXPECT_EQ(obstacle("1xL4", 8, 4), "vLLM has no KV cache of 4 bits");
  EXPECT_EQ(obstacle("1xMI300X", 16, 16), "");
  EXPECT_EQ(obstacle("1xArc-A770", 16, 16),
            "launch files are for NVIDIA's and AMD's GPUs, and Arc-A770 is neither");
  EXPECT_EQ(obstacle("1xP100-12G", 16, 16), "P100-12G has compute capability 6; vLLM needs 7.0");
}

TEST(RuntimeRules, JoinOnlyPoolsThatReadEachOther) {
  const Cluster cluster = find_cluster("8xL4", folders());
  const Configuration a{.type = device_types(cluster).front(), .tensor_parallel = 2};
  const auto joined = [&](Runtime runtime, auto change) {
    Configuration b = a;
    std::string checkpoint = "16";
    change(b, checkpoint);
    return transfer_obstacle(runtime, {a, "16"}, {b, checkpoint});
  };
  using Text = std::string;
  const auto four = [](Configuration& b, Text&) { b.tensor_parallel = 4; };
  const auto three = [](Configuration& b, Text&) { b.tensor_parallel = 3; };
  const auto kv = [](Configuration& b, Text&) { b.kv_bitwidth = 8; };
  const auto other = [](Configuration&, Text& checkpoint) { checkpoint = "8 fp8"; };
  EXPECT_EQ(joined(Runtime::vllm, four), "");
  EXPECT_EQ(joined(Runtime::vllm, three), "pools: degrees 2 and 3, neither divides the other");
  EXPECT_EQ(joined(Runtime::tessera, three), "");
  EXPECT_EQ(joined(Runtime::tessera, kv), "pools: unlike KV caches");
  EXPECT_EQ(joined(Runtime::vllm, other), "pools: vLLM wants one checkpoint in both");
  EXPECT_EQ(joined(Runtime::tessera, other), "");
}

TEST(PlanServing, ListsFirstWhatWasSimulatedWholeAndKeepsToTheSlo) {
  for (const ServingGoal goal : {ServingGoal::rate, ServingGoal::gpus, ServingGoal::cost}) {
    const ServingPlans plans = plan_serving(request_of("4xL4", goal), folders());
    ASSERT_FALSE(plans.rows.empty()) << plans.why_none;
    const ServingRow& first = plans.rows.front();
    EXPECT_EQ(first.scope, Scope::whole);
    EXPECT_LE(first.gpus, 4);
    EXPECT_LE(first.ttft_p99_s.value(), 1);
    EXPECT_LE(first.tpot_p99_s.value(), 0.08);
    const double wanted = goal == ServingGoal::rate ? 0 : 6 * (1 - 1e-9);
    EXPECT_GE(first.rate_per_s, wanted);
    EXPECT_EQ(std::ssize(first.deployment->deployment.replicas), first.engines);
    const std::vector<FrontierRow> points = frontier_of(plans);
    EXPECT_EQ(points.size(), 5 * plans.rows.size());
    EXPECT_TRUE(points.front().efficient);
  }
}

// 65 GB of weights: more than either device has room for.
TEST(PlanServing, PipelinesOverUnlikeDevicesServeWhatNoTypeHolds) {
  ServingRequest request = request_of("(1xL40S+1xA100-40G)", ServingGoal::rate);
  request.model = shipped("qwen2.5-32b");
  request.bitwidths = {16};
  request.tensor_parallel = {1};
  request.slos = {slo_of(5, 0.3)};
  request.unlike_devices = false;
  EXPECT_TRUE(plan_serving(request, folders()).rows.empty());
  request.unlike_devices = true;
  for (const ServingGoal goal : {ServingGoal::rate, ServingGoal::gpus}) {
    request.objective = goal;
    std::get<serving::TrafficOptions>(request.traffic).rate_per_s = 0.3;
    const ServingPlans plans = plan_serving(request, folders());
    ASSERT_FALSE(plans.rows.empty()) << plans.why_none;
    const ServingPart& part = plans.rows.front().parts.front();
    EXPECT_EQ(part.device, "L40S+A100-40G");
    ASSERT_EQ(part.stage_layers.size(), 2U);
    EXPECT_EQ(part.stage_layers[0] + part.stage_layers[1], request.model->num_layers);
    const Placement& placement = plans.rows.front().deployment->placement.value();
    EXPECT_EQ(placement.engines.front().stages[0].num_layers, part.stage_layers[0]);
    EXPECT_EQ(part.devices, (std::vector<std::int64_t>{0, 1}));
  }
}

// The A100 alone would run FP8, which the V100 has no kernel for; both have one for INT8 weights.
TEST(PlanServing, StagesOfAPipelineHaveOneKernelSet) {
  ServingRequest request = request_of("(2xV100-32G+1xA100-40G)", ServingGoal::rate);
  request.model = shipped("llama-3.1-70b");
  request.bitwidths = {8};
  request.kv_bitwidths = {16};
  request.slos = {slo_of(20, 1)};
  const ServingPlans plans = plan_serving(request, folders());
  ASSERT_FALSE(plans.rows.empty()) << plans.why_none;
  EXPECT_EQ(plans.rows.front().parts.front().device, "V100-32G+A100-40G");
}

// A token at a time: two cards that share each layer are faster than two in a row, where a driver
// lets them reach each other's memory.
TEST(PlanServing, GroupsOfUnlikeDevicesServeWhatNoTypeIsFastEnoughFor) {
  ServingRequest request = request_of("(1xRTX-3090+1xRTX-4090)", ServingGoal::rate);
  Cluster cluster = *request.cluster;
  cluster.nodes.front().peer_access = true;
  request.cluster = std::make_shared<const Cluster>(std::move(cluster));
  request.model = shipped("qwen2.5-32b");
  request.bitwidths = {4};
  request.slos = {slo_of(20, 1)};
  request.limit = 20;
  const ServingPlans plans = plan_serving(request, folders());
  const auto group = std::find_if(plans.rows.begin(), plans.rows.end(), [](const ServingRow& row) {
    return row.parts.front().device == "RTX-3090+RTX-4090" && row.tensor_parallel == 2;
  });
  ASSERT_NE(group, plans.rows.end());
  EXPECT_EQ(group->layout, "1 x RTX-3090+RTX-4090 TP2");
  EXPECT_EQ(group->pipeline_parallel, 1);
  EXPECT_EQ(group->parts.front().devices, (std::vector<std::int64_t>{0, 1}));
  const Placement& placement = group->deployment->placement.value();
  EXPECT_EQ(placement.engines.front().stages.front().device, "RTX-3090+RTX-4090");
  request.slos = {slo_of(20, 0.022)};
  const ServingPlans fast = plan_serving(request, folders());
  ASSERT_FALSE(fast.rows.empty()) << fast.why_none;
  EXPECT_EQ(fast.rows.front().layout, "1 x RTX-3090+RTX-4090 TP2");
  request.unlike_devices = false;
  const ServingPlans alone = plan_serving(request, folders());
  const double rate = alone.rows.empty() ? 0 : alone.rows.front().rate_per_s;
  EXPECT_GE(fast.rows.front().rate_per_s, 1.3 * rate);
}

TEST(PlanServing, PipelinesOverUnlikeDevicesLowerNoRate) {
  for (const char* cluster : {"(1xA100-40G+2xT4-16G)", "2xA100-40G+2xL4", "2x(1xL4+1xT4-16G)",
                              "1xL4+1xT4-16G+1xV100-32G"}) {
    for (const Runtime runtime : {Runtime::vllm, Runtime::tessera}) {
      ServingRequest request = request_of(cluster, ServingGoal::rate);
      request.runtime = runtime;
      request.disaggregated = false;
      const auto rate = [&](bool unlike_devices) {
        request.unlike_devices = unlike_devices;
        const ServingPlans plans = plan_serving(request, folders());
        return plans.rows.empty() ? 0 : plans.rows.front().rate_per_s;
      };
      EXPECT_GE(rate(true), (1 - kKnownTo) * rate(false)) << cluster;
    }
  }
}

TEST(PlanServing, KeepsABoundOnQuality) {
  ServingRequest request = request_of("2xL4", ServingGoal::rate);
  request.quality.max_perplexity_increase = 0.02;
  request.limit = 20;
  const ServingPlans plans = plan_serving(request, folders());
  ASSERT_FALSE(plans.rows.empty());
  for (const ServingRow& row : plans.rows) {
    EXPECT_LE(row.quality.value().perplexity_increase.high, 0.02) << row.layout;
  }
  EXPECT_TRUE(std::any_of(plans.refusals.begin(), plans.refusals.end(), [](const Refusal& r) {
    return r.reason.starts_with("perplexity may rise by");
  }));
}

TEST(PlanServing, SaysWhyThereIsNothing) {
  ServingRequest request = request_of("4xL4", ServingGoal::rate);
  request.slos = {slo_of(1e-4, 0.08)};
  const ServingPlans plans = plan_serving(request, folders());
  EXPECT_TRUE(plans.rows.empty());
  EXPECT_NE(plans.why_none.find("a prompt alone takes"), std::string::npos) << plans.why_none;
  EXPECT_EQ(plans.simulated, 0);
}

TEST(PlanServing, IsStoppedByItsPoll) {
  ServingRequest request = request_of("4xL4", ServingGoal::rate);
  request.poll = [](std::int64_t) { throw Error(ErrorCode::interrupted, "enough"); };
  EXPECT_THROW(plan_serving(request, folders()), Error);
}

}  // namespace
}  // namespace tessera::solver::deploy_test
