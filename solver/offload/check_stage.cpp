// Written apart from stage.cpp on purpose: from FlexGen's equations as offload.h gives them, in
// long doubles.

#include "offload/check_stage.h"

#include <algorithm>
#include <cmath>

#include "src/serving_costs.h"
#include "tessera/cost/latency.h"

namespace tessera::solver::offload {
namespace {

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
        place_(place_at(k, plan.stages.size())),
        device_(serving.cluster.devices[static_cast<std::size_t>(stage_.device_index)].device),
        latency_(device_model_of(serving, device_)),
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
    const bool head =
        serving_.memory == cost::MemoryPreset::llm_pq ? is_first(place_) : is_last(place_);
    if (is_first(place_))
      seconds += latency_->embedding_s(serving_.model, static_cast<double>(rows)).value;
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
                        cost::embedding_bytes(serving_.model, place_, query());
    const Real filling =
        hidden(block_, prompt) * h.device + hidden(batch_, prompt) * (h.host + h.disk) +
        cost::prefill_activation_bytes(serving_.model, work, batch, place_, query());
    const Real stepping =
        hidden(block_, 1) * h.device + hidden(batch_, 1) * (h.host + h.disk) +
        sums_.batch_cache * c.device +
        cost::decode_activation_bytes(serving_.model, work, batch, place_, query());
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
  StagePlace place_;
  const Device& device_;
  std::unique_ptr<cost::LatencyModel> latency_;
  Real block_, batch_;
  Sums sums_;
};

}  // namespace

Tally tally_stage(const Plan& plan, const ServingProblem& serving, std::size_t k) {
  return StageCheck(plan, serving, k).tally();
}

}  // namespace tessera::solver::offload
