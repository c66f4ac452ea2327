// The first plan (OPT-30b on 3xT4 + 1xV100, prompts of 512 and 100 tokens out, batch 32): lowering,
// pricing, and the proven optimum, whose objective tests/golden keeps.
#include <benchmark/benchmark.h>

#include <cmath>

#include "tessera/core/json.h"
#include "tessera/indicator/indicator.h"
#include "tessera/solver/ilp/ilp_planner.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/problem/problem.h"

namespace tessera {
namespace {

const std::string kSource = TESSERA_SOURCE_DIR;

solver::Problem first_plan() {
  const DataFolders folders({kSource + "/datasets"});
  solver::BatchProblem batch;
  batch.model = model_from_json(read_json_file(folders.find("models", "opt-30b")), "opt-30b.json");
  batch.cluster = cluster_from_text("3xT4-16G+1xV100-32G@800Gbps", folders);
  batch.bitwidths = {3, 4, 8, 16};
  batch.indicator =
      indicator::make_constant(static_cast<std::size_t>(batch.model.num_layers), batch.bitwidths);
  batch.kernel_set = cost::find_kernel_set("tessera", folders);
  solver::Problem problem;
  problem.given = batch;
  return problem;
}

double golden_objective() {
  const Json golden = read_json_file(kSource + "/tests/golden/example-01_first_plan.json");
  return golden.at("solved").at("objective").get<double>();
}

bool near(double a, double b, double relative) {
  return std::fabs(a - b) <= relative * std::fabs(b);
}

void BM_Lower(benchmark::State& state) {
  const solver::Problem problem = first_plan();
  for (auto _ : state) {
    const solver::Instance instance = solver::lower(problem);
    if (instance.num_layers() != 48 || instance.num_devices() != 4 ||
        instance.prefill(1).layer_s.empty() || instance.decode(8).layer_s.empty()) {
      state.SkipWithError("the instance has the wrong shape");
      break;
    }
  }
}
BENCHMARK(BM_Lower)->Unit(benchmark::kMicrosecond);

void BM_Ilp(benchmark::State& state) {
  const solver::Instance instance = solver::lower(first_plan());
  const auto planner = solver::make_ilp_planner();
  solver::PlanRequest request;
  request.time_limit_s = 600;
  for (auto _ : state) {
    const solver::PlanResult result = planner->plan(instance, request);
    if (result.status != solver::SolveStatus::optimal ||
        !near(result.objective, golden_objective(), 1e-6)) {
      state.SkipWithError("not the golden optimum");
      break;
    }
  }
}
BENCHMARK(BM_Ilp)->Unit(benchmark::kMillisecond)->MeasureProcessCPUTime();

void BM_Evaluate(benchmark::State& state) {
  const solver::Instance instance = solver::lower(first_plan());
  const solver::PlanResult result = solver::make_ilp_planner()->plan(instance, {});
  if (!result.candidate) return state.SkipWithError("no plan");
  const double expected = golden_objective();
  for (auto _ : state) {
    const solver::Evaluation evaluation = solver::evaluate(instance, *result.candidate);
    if (!near(evaluation.objective, expected, 1e-6)) {
      state.SkipWithError("not the golden objective");
      break;
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Evaluate)->Unit(benchmark::kNanosecond);

}  // namespace
}  // namespace tessera
