#include "stage_of_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::solver {
namespace {

/// The devices that a stage runs on: the group whose first device it names.
std::vector<std::size_t> members_of(const std::vector<MeshGroup>& groups, std::int64_t device,
                                    const std::string& where) {
  for (const MeshGroup& group : groups) {
    for (const auto& members : group.members) {
      if (static_cast<std::int64_t>(members.front()) == device) return members;
    }
  }
  refuse(where + ".device_index",
         "no device or tensor-parallel group of the plan's cluster starts at device {}; save the "
         "plan anew",
         device);
}

}  // namespace

std::vector<StageOfPlan> stages_of_plan(const PipelinePlan& plan) {
  const ServingProblem* serving = plan.problem.serving();
  if (serving == nullptr) {
    refuse(ErrorCode::unsupported, "plan",
           "the plan of an abstract instance has times of one workload only, and no KV cache; give "
           "the plan of a model on a cluster");
  }
  if (plan.offload) {
    refuse(ErrorCode::unsupported, "plan.offload",
           "an offloading plan is priced by FlexGen's cost model for one batch; requests that come "
           "and go need a plan whose weights and KV cache are on the devices");
  }
  const std::vector<MeshGroup> groups = mesh_groups(serving->cluster, serving->mesh);
  std::vector<StageOfPlan> stages;
  std::int64_t next = 0;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& from = plan.stages[k];
    const std::string where = fmt::format("plan.stages[{}]", k + 1);
    const std::int64_t end = from.first_layer + from.num_layers;
    if (from.first_layer != next || end > serving->model.num_layers ||
        std::ssize(from.bitwidths) != from.num_layers) {
      refuse(where, "holds layers {} to {} with {} bitwidths; layer {} of {} comes next",
             from.first_layer, end - 1, from.bitwidths.size(), next, serving->model.num_layers);
    }
    StageOfPlan& stage = stages.emplace_back();
    stage.members = members_of(groups, from.device_index, where);
    stage.place = place_at(k, plan.stages.size());
    for (const std::int32_t bitwidth : from.bitwidths) {
      const auto layer = static_cast<std::size_t>(next++);
      ++stage.layers[{serving->model.layer_class[layer], bitwidth}];
    }
  }
  if (next != serving->model.num_layers) {
    refuse("plan.stages", "hold {} of {} layers", next, serving->model.num_layers);
  }
  return stages;
}

std::int64_t longest_context(const ModelShape& model, std::int64_t max_model_len) {
  return std::max<std::int64_t>(1, max_model_len > 0 ? max_model_len : model.max_context_tokens);
}

}  // namespace tessera::solver
