// The independent checker of offloading plans: shares nothing with model.cpp, stage.cpp and the
// linear programme but the types.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "offload/check_stage.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/solver/offload.h"

namespace tessera::solver {
namespace {

using Check = std::optional<Violation>;
using offload::Real;
using offload::Tally;

constexpr double kSlack = 1e-6;  ///< relative, of printed numbers

Check broken(const char* constraint, std::string message) {
  return Violation{constraint, std::move(message)};
}

/// A number of the plan, and what the checker makes of it.
struct Printed {
  const char* name;
  double printed;
  Real own;
};

Check differs(const std::string& what, double printed, Real computed) {
  const auto own = static_cast<double>(computed);
  if (std::fabs(printed - own) <= kSlack * std::max({1e-9, std::fabs(printed), std::fabs(own)}))
    return std::nullopt;
  return broken("objective", fmt::format("{} is {}, the cost model gives {}", what, printed, own));
}

Check check_shares(const Plan& plan) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const StageOffload& offload = *plan.stages[k].offload;
    for (const auto& [name, r] :
         {std::pair{"weights", offload.weights}, std::pair{"kv_cache", offload.kv_cache},
          std::pair{"activations", offload.activations}}) {
      const bool in_range = r.device >= 0 && r.host >= 0 && r.disk >= 0;
      if (in_range && std::fabs(r.device + r.host + r.disk - 1) <= 1e-9) continue;
      return broken("offload",
                    fmt::format("stage {}: the shares of {} on device, host and disk are "
                                "{}, {} and {}; they must be at least 0 and sum to 1",
                                k + 1, name, r.device, r.host, r.disk));
    }
  }
  return std::nullopt;
}

Check check_devices(const Plan& plan, const Cluster& cluster) {
  std::set<std::int64_t> used;
  if (plan.device_order.size() != plan.stages.size())
    return broken("devices", "device_order does not name the devices of the stages");
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    const auto index = static_cast<std::size_t>(stage.device_index);
    const bool exists = index < cluster.devices.size() &&
                        cluster.devices[index].device.name == stage.device &&
                        cluster.nodes[cluster.devices[index].node_index].name == stage.node;
    if (!exists || !used.insert(stage.device_index).second) {
      return broken("devices", fmt::format("stage {} is said to be on device {}, which is no {}@{} "
                                           "or has another stage",
                                           k + 1, stage.device_index, stage.device, stage.node));
    }
    if (plan.device_order[k] != stage.device)
      return broken("devices", "device_order does not name the devices of the stages");
  }
  return std::nullopt;
}

Check check_memory(const Plan& plan, const ServingProblem& serving,
                   const std::vector<Tally>& tallies) {
  const Cluster& cluster = serving.cluster;
  std::vector<Real> held(cluster.nodes.size(), 0);
  for (std::size_t k = 0; k < tallies.size(); ++k) {
    const ClusterDevice& slot =
        cluster.devices[static_cast<std::size_t>(plan.stages[k].device_index)];
    const double usable = slot.device.memory_bytes -
                          cost::reserve_bytes(slot.device, {serving.memory, serving.kv_bitwidth});
    if (tallies[k].device > usable * (1.0L + kMemorySlack)) {
      return broken("memory", fmt::format("stage {} on {} needs {}, has {}; offload more of it",
                                          k + 1, slot.device.name,
                                          format_bytes(static_cast<double>(tallies[k].device)),
                                          format_bytes(usable)));
    }
    const Node& node = cluster.nodes[slot.node_index];
    const bool uses_disk = tallies[k].disk > 0;
    if (uses_disk && !(node.disk_bytes_per_s && *node.disk_bytes_per_s > 0)) {
      return broken("offload", fmt::format("stage {} keeps data on the disk of node {}, whose "
                                           "rate the cluster does not say; give disk_bytes_per_s",
                                           k + 1, quote(node.name)));
    }
    held[slot.node_index] += tallies[k].host;
  }
  for (std::size_t n = 0; n < held.size(); ++n) {
    const double usable =
        cluster.nodes[n].host_memory_bytes.value_or(0) * plan.offload->host_memory_ratio;
    if (held[n] <= usable * (1.0L + kMemorySlack)) continue;
    return broken("memory",
                  fmt::format("the stages on node {} keep {} on the host, which may use "
                              "{}; offload less, or to disk",
                              quote(cluster.nodes[n].name),
                              format_bytes(static_cast<double>(held[n])), format_bytes(usable)));
  }
  return std::nullopt;
}

/// The steady latency (solver/README.md, Objective) with blocks for micro-batches.
Real latency_of(const Plan& plan, const ServingProblem& serving,
                const std::vector<Tally>& tallies) {
  const auto blocks =
      static_cast<Real>(ceil_div(serving.workload.batch_size, plan.prefill_micro_batch_size));
  Real slowest_prefill = 0, slowest_decode = 0, prefill = 0, decode = 0;
  for (std::size_t k = 0; k < tallies.size(); ++k) {
    prefill += tallies[k].prefill;
    decode += tallies[k].decode;
    slowest_prefill = std::max(slowest_prefill, tallies[k].prefill);
    slowest_decode = std::max(slowest_decode, tallies[k].decode);
    if (k == 0) continue;
    const Link link =
        serving.cluster.link(static_cast<std::size_t>(plan.stages[k - 1].device_index),
                             static_cast<std::size_t>(plan.stages[k].device_index));
    const Real token = static_cast<Real>(plan.prefill_micro_batch_size) *
                       static_cast<Real>(serving.model.hidden_size) * 2 / link.bytes_per_s;
    slowest_prefill =
        std::max(slowest_prefill, link.latency_s + token * serving.workload.prompt_tokens);
    slowest_decode = std::max(slowest_decode, link.latency_s + token);
  }
  const Real steps = std::max<Real>(0, serving.workload.output_tokens - 1.0L);
  return (blocks - 1) * slowest_prefill + prefill +
         steps * std::max(blocks * slowest_decode, decode);
}

Check check_stage_numbers(const PlanStage& stage, const Tally& t, std::size_t k) {
  const StageMemory& m = stage.memory;
  const std::string name = fmt::format("stages[{}].", k + 1);
  const Printed numbers[] = {{"prefill_s", stage.prefill_s, t.prefill},
                             {"decode_s", stage.decode_s, t.decode},
                             {"memory.weight_bytes", m.weight_bytes, t.device_weights},
                             {"memory.kv_cache_bytes", m.kv_cache_bytes, t.device_cache},
                             {"memory.total_bytes", m.total_bytes, t.device + m.reserve_bytes},
                             {"memory.activation_bytes", m.activation_bytes,
                              t.device - t.device_weights - t.device_cache - m.embedding_bytes},
                             {"offload.host_bytes", stage.offload->host_bytes, t.host},
                             {"offload.disk_bytes", stage.offload->disk_bytes, t.disk}};
  for (const Printed& n : numbers) {
    if (Check v = differs(name + n.name, n.printed, n.own)) return v;
  }
  return std::nullopt;
}

Check check_fixed_memory(const Plan& plan, const ServingProblem& serving) {
  const cost::MemoryQuery query{serving.memory, serving.kv_bitwidth};
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const PlanStage& stage = plan.stages[k];
    const Device& device =
        serving.cluster.devices[static_cast<std::size_t>(stage.device_index)].device;
    const std::string name = fmt::format("stages[{}].memory.", k + 1);
    if (Check v =
            differs(name + "capacity_bytes", stage.memory.capacity_bytes, device.memory_bytes))
      return v;
    if (Check v = differs(name + "reserve_bytes", stage.memory.reserve_bytes,
                          cost::reserve_bytes(device, query)))
      return v;
    if (Check v =
            differs(name + "embedding_bytes", stage.memory.embedding_bytes,
                    cost::embedding_bytes(serving.model, place_at(k, plan.stages.size()), query)))
      return v;
  }
  return std::nullopt;
}

Check check_totals(const Plan& plan, const Problem& problem, const Instance& instance,
                   Real latency) {
  Real omega = 0, bits = 0, layers = 0;
  for (const PlanStage& stage : plan.stages) {
    for (const std::int32_t bit : stage.bitwidths) {
      const auto at = static_cast<std::size_t>(
          std::find(instance.bitwidths.begin(), instance.bitwidths.end(), bit) -
          instance.bitwidths.begin());
      omega += instance.omega[static_cast<std::size_t>(layers) * instance.bitwidths.size() + at];
      bits += bit;
      layers += 1;
    }
  }
  if (problem.max_omega &&
      omega > *problem.max_omega + std::fabs(*problem.max_omega) * kQualitySlack) {
    return broken("quality", fmt::format("omega is {:.9g}, the quality floor allows {:.9g}",
                                         static_cast<double>(omega), *problem.max_omega));
  }
  const Workload& w = problem.serving->workload;
  const Printed numbers[] = {{"objective", plan.objective, latency + instance.theta * omega},
                             {"latency_s", plan.latency_s, latency},
                             {"throughput_tok_s", plan.throughput_tok_s,
                              static_cast<Real>(w.batch_size) * w.output_tokens / latency},
                             {"omega", plan.omega, omega},
                             {"mean_bitwidth", plan.mean_bitwidth, bits / layers}};
  for (const Printed& n : numbers) {
    if (Check v = differs(n.name, n.printed, n.own)) return v;
  }
  if (plan.bound) return broken("objective", "an offloading plan has no bound: none is proven");
  return std::nullopt;
}

}  // namespace

std::optional<Violation> find_offload_violation(const Plan& plan, const Problem& problem,
                                                const Instance& instance) {
  const Candidate candidate = candidate_of(instance, plan);
  if (Check v = check_shares(plan)) return v;
  if (Check v = find_offload_obstacle(problem, instance, candidate, *plan.offload)) return v;
  if (Check v = check_devices(plan, problem.serving->cluster)) return v;
  const ServingProblem& serving = *problem.serving;
  std::vector<Tally> tallies;
  for (std::size_t k = 0; k < plan.stages.size(); ++k)
    tallies.push_back(offload::tally_stage(plan, serving, k));
  if (Check v = check_memory(plan, serving, tallies)) return v;
  if (Check v = check_fixed_memory(plan, serving)) return v;
  for (std::size_t k = 0; k < tallies.size(); ++k) {
    if (Check v = check_stage_numbers(plan.stages[k], tallies[k], k)) return v;
  }
  return check_totals(plan, problem, instance, latency_of(plan, serving, tallies));
}

}  // namespace tessera::solver
