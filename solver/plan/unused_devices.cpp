#include <algorithm>
#include <set>

#include "tessera/solver/plan/build_plan.h"

namespace tessera::solver {
namespace {

void add_used(const PipelinePlan& plan, std::set<std::size_t>& used) {
  const BatchProblem& batch = *plan.problem.batch();
  for (const PlanStage& stage : plan.stages) {
    const auto first = static_cast<std::size_t>(stage.device_index);
    used.insert(first);
    if (stage.attention) used.insert(static_cast<std::size_t>(stage.attention->device_index));
    for (const MeshGroup& group : groups_of(batch)) {
      for (const auto& members : group.members) {
        if (members.front() == first) used.insert(members.begin(), members.end());
      }
    }
  }
}

}  // namespace

std::vector<std::size_t> unused_devices(const Plan& plan) {
  const BatchProblem* batch = summary_of(plan).problem.batch();
  if (batch == nullptr) return {};
  std::set<std::size_t> used;
  if (const auto* pipeline = std::get_if<PipelinePlan>(&plan)) {
    add_used(*pipeline, used);
  } else {
    for (const PipelinePlan& replica : std::get<ReplicatedPlan>(plan).replicas) {
      std::set<std::size_t> of_part;
      add_used(replica, of_part);
      for (const std::size_t i : of_part)
        used.insert(static_cast<std::size_t>(replica.devices->at(i)));
    }
  }
  std::vector<std::size_t> unused;
  for (std::size_t i = 0; i < batch->cluster.devices.size(); ++i) {
    if (used.count(i) == 0) unused.push_back(i);
  }
  return unused;
}

}  // namespace tessera::solver
