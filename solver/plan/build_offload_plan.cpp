// An offloading plan as scripts see it: the plan without offloading, with its own times and memory.

#include <algorithm>

#include "tessera/solver/offload/offload.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {

PipelinePlan build_offload_plan(const LoweredProblem& problem, const PlanResult& result,
                                const PlanOffload& settings,
                                const std::vector<StageOffload>& shares,
                                const std::string& planner) {
  const Instance& instance = problem.instance();
  const OffloadModel model =
      offload_model(problem.problem(), instance, *result.candidate, settings);
  const OffloadEvaluation e = evaluate_offload(model, shares);
  PipelinePlan plan = build_plan(problem, result, planner);
  plan.offload = settings;
  plan.latency_s = e.latency_s;
  plan.objective = e.latency_s + instance.theta * plan.omega;
  plan.throughput_tok_s = static_cast<double>(instance.batch_size) * instance.output_tokens /
                          std::max(e.latency_s, 1e-12);
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const OffloadStage& costs = model.stages[k];
    PlanStage& stage = plan.stages[k];
    stage.prefill_s = e.prefill_s[k];
    stage.decode_s = e.decode_s[k];
    stage.offload = shares[k];
    stage.offload->host_bytes =
        std::max(costs.host_prefill.at(shares[k]), costs.host_decode.at(shares[k]));
    stage.offload->disk_bytes = costs.disk.at(shares[k]);
    StageMemory& memory = stage.memory;
    memory.weight_bytes = costs.weights.at(shares[k]);
    memory.kv_cache_bytes = costs.kv_cache.at(shares[k]);
    const double used =
        std::max(costs.device_prefill.at(shares[k]), costs.device_decode.at(shares[k]));
    memory.activation_bytes =
        used - memory.weight_bytes - memory.kv_cache_bytes - memory.embedding_bytes;
    memory.total_bytes = used + memory.reserve_bytes;
  }
  return plan;
}

}  // namespace tessera::solver
