// Plans for a runtime: what it can launch is part of the problem (StageRule, kernels, checkpoints),
// so one more search finds the best of it where the free optimum cannot be launched.

#include <fmt/format.h>

#include <algorithm>

#include "parts.h"
#include "tessera/core/text.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/launch_rules.h"
#include "tessera/solver/plan/place_plan.h"

namespace tessera::solver {
namespace {

void set_runtime(PlanSummary& plan, Runtime runtime) {
  Problem problem = plan.problem.problem();
  problem.runtime = runtime;
  plan.problem = LoweredProblem(std::move(problem));
}

/// llama.cpp puts all requests into one step, and its stages take turns.
std::optional<std::string> overlap_obstacle(const PipelinePlan& pipeline) {
  const auto num_stages =
      std::count_if(pipeline.stages.begin(), pipeline.stages.end(),
                    [](const PlanStage& stage) { return stage.num_layers > 0; });
  const std::int64_t batch_size = pipeline.problem.batch()->workload.batch_size;
  const std::int64_t least =
      std::min(pipeline.prefill_micro_batch_size, pipeline.decode_micro_batch_size);
  if (num_stages < 2 || least >= batch_size) return std::nullopt;
  return fmt::format(
      "llama.cpp's stages take turns: its {} requests go through them in one step, not in "
      "micro-batches of {}",
      batch_size, least);
}

/// What stands in the way of a plan whose problems are for the runtime.
std::vector<std::string> obstacles(Runtime runtime, const Plan& plan) {
  std::vector<std::string> found = launch_obstacles(runtime, plan, placement_of(plan));
  const auto add_of = [&](const PipelinePlan& pipeline) {
    if (!found.empty()) return;
    const Instance& instance = pipeline.problem.instance();
    const auto violation = find_violation(instance, candidate_of(instance, pipeline));
    if (violation) found.push_back(violation->message);
    if (runtime != Runtime::llama_cpp) return;
    if (auto overlap = overlap_obstacle(pipeline)) found.push_back(*std::move(overlap));
  };
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    add_of(*pipeline);
  } else {
    for (const PipelinePlan& replica : std::get<ReplicatedPlan>(plan).replicas) add_of(replica);
  }
  return found;
}

/// Makes the plan's problems the runtime's. @return what stands in the way
std::vector<std::string> settle(Runtime runtime, Plan& plan) {
  set_runtime(summary_of(plan), runtime);
  if (auto* several = std::get_if<ReplicatedPlan>(&plan)) {
    for (PipelinePlan& replica : several->replicas) set_runtime(replica, runtime);
  }
  return runtime == Runtime::tessera ? std::vector<std::string>{} : obstacles(runtime, plan);
}

std::string note_of(Runtime runtime, const PlanSummary& free, const PlanSummary& best) {
  const double slower = best.latency_s / free.latency_s - 1;
  std::string how = "as fast as the free optimum";
  if (slower > 5e-4) how = fmt::format("{:.2g} % slower than the free optimum", slower * 100);
  if (slower < -5e-4) {
    how = fmt::format("{:.2g} % faster than the free optimum, which loses less quality",
                      -slower * 100);
  }
  return fmt::format(
      "runtime {}: {} ({:.3g} s and omega {:.3g} against {:.3g} s and {:.3g}), which it cannot "
      "launch",
      name_of(runtime), how, best.latency_s, best.omega, free.latency_s, free.omega);
}

}  // namespace

OpenProblem without_runtime(const OpenProblem& open) {
  if (!open.first.problem().runtime) return open;
  Problem free = open.first.problem();
  free.runtime.reset();
  return {LoweredProblem(std::move(free), open.prices), open.choices, open.kernel_sets,
          open.prices};
}

PlanOutcome launched_by(Runtime runtime, Plan plan) {
  const std::vector<std::string> found = settle(runtime, plan);
  if (found.empty()) return plan;
  return NoPlan{"infeasible",
                fmt::format("{} cannot launch this plan: {}", name_of(runtime), join(found, "; ")),
                "server", std::nullopt};
}

PlanOutcome plan_for_runtime(const OpenProblem& problem, const PlanOptions& options,
                             const PlanPart& plan_part) {
  const std::optional<Runtime> runtime = problem.first.problem().runtime;
  if (!runtime || *runtime == Runtime::tessera) return plan_part(problem, options);
  if (problem.first.batch() == nullptr) {
    return NoPlan{"unsupported", "an abstract instance names no model and no GPUs to launch", "",
                  std::nullopt};
  }
  const PlanningClock clock(options);
  PlanOutcome free = plan_part(without_runtime(problem), options);
  auto* optimum = std::get_if<Plan>(&free);
  if (optimum == nullptr) return free;
  const std::vector<std::string> found = settle(*runtime, *optimum);
  if (found.empty()) {
    add_notes(*optimum, {fmt::format("runtime {}: the free optimum can be launched as it is",
                                     name_of(*runtime))});
    return free;
  }
  PlanOptions rest = options;
  rest.time_limit_s = clock.left_s();
  PlanOutcome outcome = plan_part(problem, rest);
  if (auto* plan = std::get_if<Plan>(&outcome)) {
    if (obstacles(*runtime, *plan).empty()) {
      add_notes(*plan, {note_of(*runtime, summary_of(*optimum), summary_of(*plan))});
      return outcome;
    }
  } else if (const NoPlan& none = std::get<NoPlan>(outcome);
             none.code != "infeasible" || none.constraint == "cutoff") {
    return outcome;
  }
  return NoPlan{"infeasible",
                fmt::format("{} can launch no plan of this problem: {}", name_of(*runtime),
                            join(found, "; ")),
                "server", std::nullopt};
}

}  // namespace tessera::solver
