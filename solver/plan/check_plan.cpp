#include "tessera/solver/plan/check_plan.h"

#include <fmt/format.h>

#include "check_offload.h"
#include "check_replicas.h"
#include "compare_plans.h"
#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

std::optional<Violation> find_gap(const PipelinePlan& plan) {
  std::int64_t next = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    if (stage.first_layer != next ||
        stage.num_layers != static_cast<std::int64_t>(stage.bitwidths.size())) {
      return Violation{
          "contiguity",
          fmt::format("stage {} starts at layer {} with {} layers and {} bitwidths; "
                      "layer {} comes next",
                      k + 1, stage.first_layer, stage.num_layers, stage.bitwidths.size(), next)};
    }
    next += stage.num_layers;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> check_plan(const PipelinePlan& plan) {
  const Instance& instance = plan.problem.instance();
  if (auto violation = find_gap(plan)) return violation;
  if (plan.offload) return check_offload(plan);
  PlanResult result;
  result.candidate = candidate_of(instance, plan);
  if (auto violation = find_violation(instance, *result.candidate)) return violation;
  if (auto violation = find_difference(plan, build_plan(plan.problem, result, plan.planner))) {
    return violation;
  }
  if (plan.problem.batch() == nullptr) return std::nullopt;
  return find_full_attender(*plan.problem.batch(), result.candidate.value());
}

std::optional<Violation> check_plan(const Plan& plan) {
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) return check_plan(*pipeline);
  return check_replicas(std::get<ReplicatedPlan>(plan));
}

}  // namespace tessera::solver
