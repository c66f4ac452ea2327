// The engine as a library, without Lua: what a program of your own would do to plan. Built with the
// tests, as `engine_in_cpp`:
//   engine_in_cpp DATASETS [MODEL [CLUSTER]]      opt-13b on 2xT4-16G+1xV100-32G unless said
//   otherwise
#include <cstdio>
#include <exception>
#include <string>

#include "tessera/core/cluster.h"
#include "tessera/core/files.h"
#include "tessera/core/json.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/plan/plan_text.h"
#include "tessera/solver/planning/planning.h"

namespace {

using namespace tessera;

ModelShape find_model(const std::string& name, const DataFolders& folders) {
  const std::string path = folders.require("models", name);
  return model_from_json(read_json_file(path), path);
}

/// What is served, on what, and what is known of the speed of its kernels.
solver::ServingProblem serving_problem(const std::string& model, const std::string& cluster,
                                       const DataFolders& folders) {
  solver::ServingProblem serving;
  serving.model = find_model(model, folders);
  serving.cluster = find_cluster(cluster, folders);
  serving.workload.batch_size = 16;
  serving.bitwidths = {3, 4, 8, 16};
  serving.indicator = indicator::make_constant(static_cast<std::size_t>(serving.model.num_layers),
                                               serving.bitwidths);
  serving.kernel_set = cost::find_kernel_set("modern", folders);
  for (const ClusterDevice& slot : serving.cluster.devices) {
    auto profile = cost::profile_for(slot.device, serving.kernel_set, folders);
    if (!profile->parts.empty()) serving.profiles.push_back(std::move(profile));
  }
  return serving;
}

int run(const std::string& model, const std::string& cluster, const DataFolders& folders) {
  solver::Problem problem;
  problem.given = serving_problem(model, cluster, folders);
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

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: engine_in_cpp DATASETS [MODEL [CLUSTER]]\n");
    return 2;
  }
  try {
    return run(argc > 2 ? argv[2] : "opt-13b", argc > 3 ? argv[3] : "2xT4-16G+1xV100-32G",
               DataFolders({argv[1]}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_in_cpp: %s\n", error.what());
    return 1;
  }
}
