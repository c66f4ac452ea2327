// Written apart from model.cpp and the linear programme on purpose: from FlexGen's equations as
// offload.h gives them, stage by stage, in long doubles.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/latency.h"
#include "tessera/solver/offload.h"

namespace tessera::solver {
namespace {

using Check = std::optional<Violation>;
using Real = long double;

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

/// What the checker works out for itself about one stage.
struct Tally {
  Real prefill = 0, decode = 0;  ///< seconds of one block
  Real device_weights = 0, device_cache = 0, device = 0, host = 0, disk = 0;  ///< bytes
};

/// Sums over the layers of a stage.
struct Sums {
  Real weights = 0, largest = 0, largest_matrix = 0, cache = 0;
  Real bytes_per_token = 0;  ///< of the cache, one request, without windows
  Real prompt_cache = 0, mean_cache = 0, token_cache = 0, batch_cache = 0;
  Real prefill = 0, decode = 0, attention = 0;
  Real heads = 0;
};

class StageCheck {
 public:
  StageCheck(const Plan& plan, const ServingProblem& serving, std::size_t k)
      : plan_(plan),
        serving_(serving),
        stage_(plan.stages[k]),
        first_(k == 0),
        last_(k + 1 == plan.stages.size()),
        device_(serving.cluster.devices[static_cast<std::size_t>(stage_.device_index)].device),
        latency_(cost::make_roofline(device_, serving.kernel_set)),
        block_(static_cast<Real>(plan.prefill_micro_batch_size)),
        batch_(static_cast<Real>(plan.offload->gpu_batch_size)) {}

  Tally tally() {
    add_up();
    Tally t;
    t.prefill = prefill();
    t.decode = decode();
    memory(t);
    return t;
  }

 private:
  cost::MemoryQuery query() const { return {serving_.memory, serving_.kv_bitwidth}; }

  Real cache_of(const LayerShape& layer, Real requests, Real tokens) const {
    const bool windowed =
        serving_.memory == cost::MemoryPreset::physical && layer.attention_window.has_value();
    const Real seen =
        windowed ? std::min<Real>(tokens, static_cast<Real>(*layer.attention_window)) : tokens;
    return requests * seen * 2 * static_cast<Real>(layer.num_kv_heads) *
           static_cast<Real>(layer.head_dim) * serving_.kv_bitwidth / 8;
  }

  void add_up() {
    const Workload& w = serving_.workload;
    const Real batches = std::ceil(block_ / batch_);
    const Real middle = w.prompt_tokens + w.output_tokens / 2;
    const auto time = [&](const LayerShape& layer, cost::Phase phase, double tokens, Real context) {
      return latency_
          ->layer_s(layer, 16, serving_.kv_bitwidth,
                    {phase, static_cast<double>(batch_), tokens, static_cast<double>(context)})
          .value;
    };
    for (std::int64_t i = 0; i < stage_.num_layers; ++i) {
      const LayerShape& layer = serving_.model.layer(stage_.first_layer + i);
      const std::int32_t bits = stage_.bitwidths[static_cast<std::size_t>(i)];
      const Real bytes = cost::layer_weight_bytes(layer, bits, query());
      sums_.weights += bytes;
      sums_.largest = std::max(sums_.largest, bytes);
      for (const LinearShape& matrix : layer.linears) {
        const Real fp16 = 2.0L * static_cast<Real>(matrix.in_features * matrix.out_features);
        if (bits < 16) sums_.largest_matrix = std::max(sums_.largest_matrix, fp16);
      }
      sums_.cache += cache_of(layer, static_cast<Real>(w.batch_size),
                              static_cast<Real>(w.max_prompt_tokens + w.max_output_tokens));
      sums_.prompt_cache += cache_of(layer, block_, w.prompt_tokens + 1.0L);
      sums_.mean_cache += cache_of(layer, block_, middle);
      sums_.token_cache += cache_of(layer, block_, 1);
      sums_.batch_cache = std::max(
          sums_.batch_cache,
          cache_of(layer, batch_, static_cast<Real>(w.max_prompt_tokens + w.max_output_tokens)));
      sums_.heads = std::max(sums_.heads, static_cast<Real>(layer.num_heads));
      sums_.prefill += batches * time(layer, cost::Phase::prefill, w.prompt_tokens, 0);
      const Real bare = time(layer, cost::Phase::decode, 1, 0);
      sums_.decode += batches * bare;
      sums_.attention += batches * (time(layer, cost::Phase::decode, 1, middle) - bare);
    }
  }

  Real hidden(Real requests, Real tokens) const {
    return requests * tokens * static_cast<Real>(serving_.model.hidden_size) * 2;
  }

  /// Time per byte of this stage's part of the node's disk.
  Real disk_s_per_byte() const {
    const Node& node = node_of(stage_);
    if (!node.disk_bytes_per_s) return 0;
    return sharers() / static_cast<Real>(*node.disk_bytes_per_s);
  }

  Real sharers() const {
    Real count = 0;
    for (const PlanStage& other : plan_.stages)
      count += &node_of(other) == &node_of(stage_) ? 1 : 0;
    return count;
  }

  const Node& node_of(const PlanStage& stage) const {
    const Cluster& c = serving_.cluster;
    return c.nodes[c.devices[static_cast<std::size_t>(stage.device_index)].node_index];
  }

  Real ends(Real rows) const {
    Real seconds = 0;
    const bool head = serving_.memory == cost::MemoryPreset::llm_pq ? first_ : last_;
    if (first_) seconds += latency_->embedding_s(serving_.model, static_cast<double>(rows)).value;
    if (head) seconds += latency_->lm_head_s(serving_.model, static_cast<double>(block_)).value;
    return seconds;
  }

  Real prefill() const {
    const auto& [w, c, h, host, disk] = *stage_.offload;
    const Real states =
        static_cast<Real>(stage_.num_layers) * hidden(block_, serving_.workload.prompt_tokens);
    const Real pcie = device_.pcie_bytes_per_s, slow = disk_s_per_byte();
    const Real in = (sums_.weights * (w.host + w.disk) + states * (h.host + h.disk)) / pcie;
    const Real out = (sums_.prompt_cache * (c.host + c.disk) + states * (h.host + h.disk)) / pcie;
    const Real read = (sums_.weights * w.disk + states * h.disk) * slow;
    const Real write = (sums_.prompt_cache * c.disk + states * h.disk) * slow;
    return std::max({in, out, read, write, sums_.prefill}) +
           ends(block_ * serving_.workload.prompt_tokens);
  }

  Real decode() const {
    const auto& [w, c, h, host, disk] = *stage_.offload;
    const Real states = static_cast<Real>(stage_.num_layers) * hidden(block_, 1);
    const Real pcie = device_.pcie_bytes_per_s, slow = disk_s_per_byte();
    const Real in = (sums_.weights * (w.host + w.disk) + states * (h.host + h.disk)) / pcie;
    const Real out = states * (h.host + h.disk) / pcie;
    const Real read = (sums_.mean_cache * c.disk + sums_.weights * w.disk + states * h.disk) * slow;
    const Real write = (sums_.token_cache * c.disk + states * h.disk) * slow;
    const Real host_attention = sums_.mean_cache * (c.host + c.disk) * sharers() /
                                plan_.offload->host_attention_bytes_per_s;
    const Real compute = sums_.decode + sums_.attention * c.device + host_attention;
    return std::max({in, out, read, write, compute}) + ends(block_);
  }

  void memory(Tally& t) const {
    const auto& [w, c, h, host, disk] = *stage_.offload;
    Workload work = serving_.workload;
    work.chunk_tokens.reset();
    const auto prompt = static_cast<Real>(work.max_prompt_tokens);
    const std::int64_t batch = plan_.offload->gpu_batch_size;
    t.device_weights = sums_.weights * w.device + 2 * sums_.largest * (w.host + w.disk);
    t.device_cache = sums_.cache * c.device;
    const Real always = t.device_weights + t.device_cache + sums_.largest_matrix +
                        cost::embedding_bytes(serving_.model, first_, last_, query());
    const Real filling =
        hidden(block_, prompt) * h.device + hidden(batch_, prompt) * (h.host + h.disk) +
        cost::prefill_activation_bytes(serving_.model, work, batch, first_, last_, query());
    const Real stepping =
        hidden(block_, 1) * h.device + hidden(batch_, 1) * (h.host + h.disk) +
        sums_.batch_cache * c.device +
        cost::decode_activation_bytes(serving_.model, work, batch, first_, last_, query());
    t.device = always + std::max(filling, stepping);
    const Real scores =
        batch_ * 2 *
        (sums_.heads * static_cast<Real>(work.max_prompt_tokens + work.max_output_tokens) +
         static_cast<Real>(serving_.model.hidden_size));
    const Real home = sums_.weights * w.host + sums_.cache * c.host;
    t.host = home + std::max(hidden(block_, prompt) * h.host + sums_.largest * (w.host + w.disk) +
                                 hidden(batch_, prompt) * (h.host + h.disk),
                             hidden(block_, 1) * h.host + sums_.largest * w.disk +
                                 2 * hidden(batch_, 1) * h.disk + 2 * sums_.batch_cache * c.disk +
                                 scores * (c.host + c.disk));
    t.disk = sums_.weights * w.disk + sums_.cache * c.disk + hidden(block_, prompt) * h.disk;
  }

  const Plan& plan_;
  const ServingProblem& serving_;
  const PlanStage& stage_;
  bool first_, last_;
  const Device& device_;
  std::unique_ptr<cost::LatencyModel> latency_;
  Real block_, batch_;
  Sums sums_;
};

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

/// The steady latency of planner.md section 1 with blocks for micro-batches.
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
    if (Check v = differs(
            name + "embedding_bytes", stage.memory.embedding_bytes,
            cost::embedding_bytes(serving.model, k == 0, k + 1 == plan.stages.size(), query)))
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
    tallies.push_back(StageCheck(plan, serving, k).tally());
  if (Check v = check_memory(plan, serving, tallies)) return v;
  if (Check v = check_fixed_memory(plan, serving)) return v;
  for (std::size_t k = 0; k < tallies.size(); ++k) {
    if (Check v = check_stage_numbers(plan.stages[k], tallies[k], k)) return v;
  }
  return check_totals(plan, problem, instance, latency_of(plan, serving, tallies));
}

}  // namespace tessera::solver
