#include "check_replicas.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>

#include "tessera/solver/instance/numbers.h"
#include "tessera/solver/plan/build_plan.h"
#include "tessera/solver/plan/check_plan.h"
#include "tessera/solver/problem/open_problem.h"

namespace tessera::solver {
namespace {

Violation violation(const char* constraint, std::string message) {
  return {constraint, std::move(message)};
}

// The whole problem on the replica's devices, with the choices that the replica made.
bool is_part(const Problem& whole, const PipelinePlan& replica) {
  const BatchProblem* part = replica.problem.batch();
  if (part == nullptr) return false;
  const std::vector<std::int32_t>& bitwidths = whole.batch()->bitwidths;
  const auto is_candidate = [&](std::int32_t bits) {
    return std::ranges::find(bitwidths, bits) != bitwidths.end();
  };
  if (!std::ranges::all_of(part->bitwidths, is_candidate)) return false;
  const std::vector<std::size_t> devices(replica.devices->begin(), replica.devices->end());
  Problem expected = on_devices(whole, devices, part->workload.batch_size);
  expected.batch()->mesh = part->mesh;
  expected.batch()->split = part->split;
  expected.batch()->kv_bitwidth = part->kv_bitwidth;
  expected.batch()->kernel_set = part->kernel_set;
  expected.batch()->attention = part->attention;
  expected.batch()->bitwidths = part->bitwidths;  // those of one kind of checkpoint
  return LoweredProblem(std::move(expected)) == replica.problem;
}

std::optional<Violation> check_devices(const PipelinePlan& replica, std::size_t r,
                                       std::size_t num_devices, std::set<std::int64_t>& used) {
  if (!replica.devices || replica.devices->empty()) {
    return violation("devices", fmt::format("replica {} names no devices", r + 1));
  }
  for (const std::int64_t i : *replica.devices) {
    if (i < 0 || i >= static_cast<std::int64_t>(num_devices)) {
      return violation("devices", fmt::format("replica {} is on device {}, there are {}", r + 1, i,
                                              num_devices));
    }
    if (!used.insert(i).second) {
      return violation("devices",
                       fmt::format("replica {} is on device {}, which is taken", r + 1, i));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> check_replicas(const ReplicatedPlan& plan) {
  const Problem& problem = plan.problem.problem();
  const BatchProblem* whole = problem.batch();
  if (whole == nullptr) return violation("devices", "an instance file has no replicas");
  std::set<std::int64_t> used;
  std::int64_t requests = 0;
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    const PipelinePlan& replica = plan.replicas[r];
    if (auto violation = check_devices(replica, r, whole->cluster.devices.size(), used)) {
      return violation;
    }
    if (!is_part(problem, replica)) {
      return violation("devices", fmt::format("the problem of replica {} is not the plan's on its "
                                              "devices",
                                              r + 1));
    }
    requests += replica.problem.batch()->workload.batch_size;
    if (auto violation = check_plan(replica)) {
      violation->message = fmt::format("replica {}: {}", r + 1, violation->message);
      return violation;
    }
  }
  if (requests != whole->workload.batch_size) {
    return violation("replicas", fmt::format("the replicas serve {} requests, the batch has {}",
                                             requests, whole->workload.batch_size));
  }
  const ReplicatedPlan fresh = join_replicas(problem, plan.replicas, plan.planner);
  for (const auto& [name, number] : {std::pair{"objective", &PlanSummary::objective},
                                     std::pair{"latency_s", &PlanSummary::latency_s},
                                     std::pair{"throughput_tok_s", &PlanSummary::throughput_tok_s},
                                     std::pair{"omega", &PlanSummary::omega},
                                     std::pair{"mean_bitwidth", &PlanSummary::mean_bitwidth}}) {
    if (near(plan.*number, fresh.*number)) continue;
    return violation("objective", fmt::format("{} is {}, the replicas give {}", name, plan.*number,
                                              fresh.*number));
  }
  if (plan.bound && *plan.bound > plan.objective + kNumberSlack * std::fabs(plan.objective)) {
    return violation("objective", fmt::format("bound is {}, above the objective of {}", *plan.bound,
                                              plan.objective));
  }
  return std::nullopt;
}

}  // namespace tessera::solver
