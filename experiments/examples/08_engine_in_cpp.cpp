// The engine as a library, without Lua: what a program of your own would do to plan. Built with the
// tests, as `engine_in_cpp`:
//   engine_in_cpp DATASETS [MODEL [CLUSTER]]         opt-13b on 2xT4-16G+1xV100-32G unless said
//   engine_in_cpp DATASETS serve MODEL CLUSTER       a stream of requests instead of a batch
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/deploy/plan_serving.h"
#include "tessera/solver/plan/plan_text.h"
#include "tessera/solver/planning/planning.h"

namespace {

using namespace tessera;

ModelShape find_model(const std::string& name, const DataFolders& folders) {
  const std::string path = folders.require("models", name);
  return model_from_json(read_json_file(path), path);
}

/// What is served, on what, and what is known of the speed of its kernels.
solver::BatchProblem batch_problem(const std::string& model, const std::string& cluster,
                                   const DataFolders& folders) {
  solver::BatchProblem batch;
  batch.model = find_model(model, folders);
  batch.cluster = find_cluster(cluster, folders);
  batch.workload.batch_size = 16;
  batch.bitwidths = {3, 4, 8, 16};
  batch.indicator =
      indicator::make_constant(static_cast<std::size_t>(batch.model.num_layers), batch.bitwidths);
  batch.kernel_set = cost::find_kernel_set("modern", folders);
  for (const ClusterDevice& slot : batch.cluster.devices) {
    auto profile = cost::profile_for(slot.device, batch.kernel_set, folders);
    if (!profile->parts.empty()) batch.profiles.push_back(std::move(profile));
  }
  return batch;
}

int run(const std::string& model, const std::string& cluster, const DataFolders& folders) {
  solver::Problem problem;
  problem.given = batch_problem(model, cluster, folders);
  // Still open: one replica or two, and how many bits the KV cache has. All of it is searched.
  const solver::OpenProblem open =
      solver::open_problem(std::move(problem), {.tensor_parallel = {}, .kv_bitwidths = {{16, 8}}});
  solver::PlanOptions options;
  options.replicas = solver::ReplicaNumbers{.numbers = {1, 2}};
  options.on_incumbent = [](const solver::IncumbentNews& news) {
    std::printf("found a plan of %.4g s\n", news.objective);
  };
  const solver::PlanOutcome outcome = solver::plan(open, options);
  if (const auto* why = std::get_if<solver::NoPlan>(&outcome)) {
    std::printf("no plan: %s (%s)\n", why->message.c_str(), why->code.c_str());
    return 3;
  }
  std::printf("%s", solver::describe(std::get<solver::Plan>(outcome)).c_str());
  return 0;
}

/// Which engines serve a stream of requests with the fewest devices, within limits on latency and
/// on what quantisation may cost.
int run_serving(const std::string& model, const std::string& cluster, const DataFolders& folders) {
  serving::TrafficOptions traffic;
  traffic.rate_per_s = 2;
  traffic.prompt_tokens = serving::fixed_length(300);
  traffic.output_tokens = serving::fixed_length(100);
  serving::Slo slo;
  slo.ttft_s.of_all = {{.statistic = serving::Statistic::p99, .limit_s = 2}};
  slo.tpot_s.of_all = {{.statistic = serving::Statistic::p99, .limit_s = 0.1}};
  solver::ServingRequest request;
  request.model = std::make_shared<ModelShape>(find_model(model, folders));
  request.cluster = std::make_shared<Cluster>(find_cluster(cluster, folders));
  request.traffic = traffic;
  request.slos = {slo};
  request.objective = solver::ServingGoal::gpus;
  request.quality.max_perplexity_increase = 0.05;
  request.num_requests = 200;
  const solver::ServingPlans plans = solver::plan_serving(request, folders);
  for (const solver::ServingRow& row : plans.rows) {
    std::printf("%s, %d bits: %.3g req/s, TTFT p99 %.3g s, perplexity +%.1f %%\n",
                row.layout.c_str(), row.bitwidth, row.rate_per_s, row.ttft_p99_s.value_or(0),
                100 * row.perplexity_increase.value_or(0));
  }
  if (plans.rows.empty()) std::printf("%s\n", plans.why_none.c_str());
  return plans.rows.empty() ? 3 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: engine_in_cpp DATASETS [[serve] MODEL [CLUSTER]]\n");
    return 2;
  }
  try {
    if (argc == 5 && std::string(argv[2]) == "serve") {
      return run_serving(argv[3], argv[4], DataFolders({argv[1]}));
    }
    return run(argc > 2 ? argv[2] : "opt-13b", argc > 3 ? argv[3] : "2xT4-16G+1xV100-32G",
               DataFolders({argv[1]}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_in_cpp: %s\n", error.what());
    return 1;
  }
}
