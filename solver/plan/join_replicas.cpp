#include <algorithm>
#include <limits>
#include <utility>

#include "plan_origin.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

// The replicas have meshes, splits and KV bitwidths of their own.
Problem without_mesh(Problem whole) {
  whole.batch()->mesh.reset();
  whole.batch()->split = {};
  return whole;
}

// A request may meet any of them: the one whose loss is largest.
std::optional<Quality> worst_of(const std::vector<PipelinePlan>& replicas) {
  const auto nats = [](const PipelinePlan& plan) {
    return plan.quality ? plan.quality->kl_nats.high : -1;
  };
  return std::max_element(
             replicas.begin(), replicas.end(),
             [&](const PipelinePlan& a, const PipelinePlan& b) { return nats(a) < nats(b); })
      ->quality;
}

}  // namespace

ReplicatedPlan join_replicas(const Problem& problem, std::vector<PipelinePlan> replicas,
                             const std::string& planner) {
  PlanSummary plan(LoweredProblem(without_mesh(problem)));
  plan.planner = planner;
  const double theta = replicas.front().problem.instance().theta;
  double seconds = -std::numeric_limits<double>::infinity();
  plan.omega = seconds;
  for (const PipelinePlan& replica : replicas) {
    seconds = std::max(seconds, replica.objective - theta * replica.omega);
    plan.omega = std::max(plan.omega, replica.omega);
    plan.mean_bitwidth += replica.mean_bitwidth / static_cast<double>(replicas.size());
    plan.solve_s += replica.solve_s;
    plan.latency_s = std::max(plan.latency_s, replica.latency_s);
  }
  plan.objective = seconds + theta * plan.omega;
  const Workload& workload = problem.batch()->workload;
  plan.throughput_tok_s = static_cast<double>(workload.batch_size) * workload.output_tokens /
                          std::max(plan.latency_s, 1e-12);
  plan.quality = worst_of(replicas);
  plan.provenance = replicas.front().provenance;
  plan.error = replicas.front().error;
  for (const PipelinePlan& replica :
       replicas) {  // the slowest decides; the weakest word stands for all
    plan.provenance = weaker(plan.provenance, replica.provenance);
    if (!replica.error) plan.error.reset();
    if (plan.error) plan.error = std::max(*plan.error, *replica.error);
    const auto note = correction_note(replica);
    if (note && std::ranges::find(plan.notes, *note) == plan.notes.end()) {
      plan.notes.push_back(*note);
    }
  }
  return {std::move(plan), std::move(replicas)};
}

}  // namespace tessera::solver
