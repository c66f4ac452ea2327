#include "src/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/numbers.h"
#include "tessera/core/json.h"
#include "tessera/solver/variants.h"

namespace tessera::solver {
namespace {

Violation violation(const char* constraint, std::string message) {
  return {constraint, std::move(message)};
}

// The whole problem on the replica's devices, with the choices that the replica made.
bool is_part(const Problem& whole, const Plan& replica, const Problem& part) {
  std::vector<std::size_t> devices;
  for (const std::int64_t i : replica.devices) devices.push_back(static_cast<std::size_t>(i));
  Problem expected = part_of(whole, devices, part.serving->workload.batch_size);
  expected.serving->mesh = part.serving->mesh;
  expected.serving->kv_bitwidth = part.serving->kv_bitwidth;
  return to_json(expected) == to_json(part);
}

std::optional<Violation> check_devices(const Plan& replica, std::size_t r, std::size_t num_devices,
                                       std::set<std::int64_t>& used) {
  if (replica.devices.empty()) {
    return violation("devices", fmt::format("replica {} names no devices", r + 1));
  }
  for (const std::int64_t i : replica.devices) {
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

Plan join_replicas(const Problem& problem, std::vector<Plan> replicas, const std::string& planner) {
  Plan plan;
  plan.planner = planner;
  plan.objective = -std::numeric_limits<double>::infinity();
  plan.omega = plan.objective;
  for (const Plan& replica : replicas) {
    plan.objective = std::max(plan.objective, replica.objective);
    plan.omega = std::max(plan.omega, replica.omega);
    plan.mean_bitwidth += replica.mean_bitwidth / static_cast<double>(replicas.size());
    plan.solve_s += replica.solve_s;
    if (replica.latency_s <= plan.latency_s) continue;
    plan.latency_s = replica.latency_s;
    plan.prefill_micro_batch_size = replica.prefill_micro_batch_size;
    plan.decode_micro_batch_size = replica.decode_micro_batch_size;
  }
  const Workload& workload = problem.serving->workload;
  plan.throughput_tok_s = static_cast<double>(workload.batch_size) * workload.output_tokens /
                          std::max(plan.latency_s, 1e-12);
  plan.provenance = replicas.front().provenance;
  plan.error = replicas.front().error;
  for (const Plan& replica : replicas) {  // the slowest decides; the weakest word stands for all
    plan.provenance = weaker(plan.provenance, replica.provenance);
    if (!replica.error) plan.error.reset();
    if (plan.error) plan.error = std::max(*plan.error, *replica.error);
  }
  plan.replicas = std::move(replicas);
  Problem whole = problem;  // the replicas have meshes and KV bitwidths of their own
  whole.serving->mesh.clear();
  whole.serving->tensor_parallel = {1};
  plan.problem = std::make_shared<const Json>(to_json(whole));
  return plan;
}

std::optional<Violation> check_replicas(const Plan& plan) {
  const Problem whole = problem_from_json(*plan.problem, "plan.problem");
  if (!whole.serving) return violation("devices", "an instance file has no replicas");
  std::set<std::int64_t> used;
  std::int64_t requests = 0;
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    const Plan& replica = plan.replicas[r];
    if (auto violation = check_devices(replica, r, whole.serving->cluster.devices.size(), used)) {
      return violation;
    }
    const Problem part = problem_from_json(*replica.problem, "plan.replicas.problem");
    if (!part.serving || !is_part(whole, replica, part)) {
      return violation("devices", fmt::format("the problem of replica {} is not the plan's on its "
                                              "devices",
                                              r + 1));
    }
    requests += part.serving->workload.batch_size;
    if (auto violation = check_plan(replica)) {
      violation->message = fmt::format("replica {}: {}", r + 1, violation->message);
      return violation;
    }
  }
  if (requests != whole.serving->workload.batch_size) {
    return violation("replicas", fmt::format("the replicas serve {} requests, the batch has {}",
                                             requests, whole.serving->workload.batch_size));
  }
  const Plan fresh = join_replicas(whole, plan.replicas, plan.planner);
  for (const auto& [name, number] :
       {std::pair{"objective", &Plan::objective}, std::pair{"latency_s", &Plan::latency_s},
        std::pair{"throughput_tok_s", &Plan::throughput_tok_s}, std::pair{"omega", &Plan::omega},
        std::pair{"mean_bitwidth", &Plan::mean_bitwidth}}) {
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
