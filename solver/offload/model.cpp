// The cost model of offloading: every byte and second as a term that is linear in the shares.

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/core/text.h"
#include "tessera/core/units.h"
#include "tessera/cost/latency.h"
#include "tessera/solver/offload.h"

namespace tessera::solver {

const std::array<const char*, kOffloadOverlaps> kOffloadOverlapNames = {
    "copies from host to device", "copies from device to host", "reads from disk", "writes to disk",
    "computing"};

double OffloadTerm::at(const StageOffload& s) const {
  const double shares[kOffloadShares] = {
      s.weights.device,     s.weights.host,     s.weights.disk,
      s.kv_cache.device,    s.kv_cache.host,    s.kv_cache.disk,
      s.activations.device, s.activations.host, s.activations.disk};
  double value = constant;
  for (std::size_t i = 0; i < kOffloadShares; ++i) value += slope[i] * shares[i];
  return value;
}

namespace {

constexpr double kHiddenBytes = 2;         // activations are FP16
constexpr std::int32_t kComputeBits = 16;  // FlexGen decompresses weights before it computes

/// Devices by position, as build_plan assigns them.
std::vector<std::size_t> devices_of(const Cluster& cluster, const Candidate& candidate) {
  const auto groups = group_devices(cluster);
  std::vector<std::size_t> used(groups.size(), 0), devices;
  for (const std::size_t g : candidate.order) devices.push_back(groups[g][used[g]++]);
  return devices;
}

/// Sizes that all stages share. `block` and `batch` are requests per block and per GPU batch.
struct Sizes {
  double block = 1, batch = 1, batches = 1;
  double prompt = 1, mean_context = 1;     ///< tokens, for times
  double max_prompt = 1, max_context = 1;  ///< tokens, for memory
  double hidden = 1;
};

class StageBuilder {
 public:
  StageBuilder(const ServingProblem& serving, const Sizes& sizes, std::size_t device,
               StagePlace place)
      : serving_(serving),
        sizes_(sizes),
        device_(serving.cluster.devices[device].device),
        place_(place),
        latency_(cost::make_roofline(device_, serving.kernel_set)) {}

  void add_layer(const LayerShape& layer, std::int32_t bitwidth) {
    const double bytes = cost::layer_weight_bytes(layer, bitwidth, query());
    weights_ += bytes;
    largest_layer_ = std::max(largest_layer_, bytes);
    if (bitwidth < kComputeBits) {
      for (const LinearShape& linear : layer.linears) {
        decompressed_ = std::max(decompressed_, 2.0 * static_cast<double>(linear.parameters()) /
                                                    static_cast<double>(linear.num_copies));
      }
    }
    cache_ += cost::layer_kv_bytes(layer, serving_.workload, query());
    prompt_cache_ += kv_bytes(layer, sizes_.block, sizes_.prompt + 1);
    mean_cache_ += kv_bytes(layer, sizes_.block, sizes_.mean_context);
    token_cache_ += kv_bytes(layer, sizes_.block, 1);
    batch_layer_cache_ =
        std::max(batch_layer_cache_, kv_bytes(layer, sizes_.batch, sizes_.max_context));
    heads_ = std::max(heads_, static_cast<double>(layer.num_heads));
    ++layers_;
    prefill_s_ += sizes_.batches * seconds(layer, cost::Phase::prefill, sizes_.prompt, 0);
    const double alone = seconds(layer, cost::Phase::decode, 1, 0);
    decode_s_ += sizes_.batches * alone;
    attention_s_ +=
        sizes_.batches * (seconds(layer, cost::Phase::decode, 1, sizes_.mean_context) - alone);
  }

  /// `sharers`: stages on the same node, which share its disk and its processors.
  OffloadStage build(std::size_t node_index, double sharers, const PlanOffload& settings) const {
    OffloadStage stage;
    stage.node_index = node_index;
    const Node& node = serving_.cluster.nodes[node_index];
    const double pcie = device_.pcie_bytes_per_s;
    stage.has_disk = node.disk_bytes_per_s.has_value() && *node.disk_bytes_per_s > 0;
    const double disk = stage.has_disk ? *node.disk_bytes_per_s / sharers : 1;  // unused without
    set_prefill(stage, pcie, disk);
    set_decode(stage, pcie, disk, settings.host_attention_bytes_per_s / sharers);
    set_ends(stage);
    set_device_memory(stage);
    set_host_memory(stage);
    return stage;
  }

 private:
  cost::MemoryQuery query() const { return {serving_.memory, serving_.kv_bitwidth}; }

  double kv_bytes(const LayerShape& layer, double requests, double tokens) const {
    if (serving_.memory == cost::MemoryPreset::physical && layer.attention_window)
      tokens = std::min(tokens, static_cast<double>(*layer.attention_window));
    const auto width = static_cast<double>(layer.num_kv_heads * layer.head_dim);
    return 2 * requests * tokens * width * serving_.kv_bitwidth / 8;
  }

  double seconds(const LayerShape& layer, cost::Phase phase, double tokens, double context) const {
    return latency_
        ->layer_s(layer, kComputeBits, serving_.kv_bitwidth, {phase, sizes_.batch, tokens, context})
        .value;
  }

  double hidden_bytes(double requests, double tokens) const {
    return requests * tokens * sizes_.hidden * kHiddenBytes;
  }

  void set_prefill(OffloadStage& stage, double pcie, double disk) const {
    const double h = layers_ * hidden_bytes(sizes_.block, sizes_.prompt);
    auto& [ctog, gtoc, dtoc, ctod, comp] = stage.prefill;
    ctog.slope[wc] = ctog.slope[wd] = weights_ / pcie;
    gtoc.slope[cc] = gtoc.slope[cd] = prompt_cache_ / pcie;
    for (OffloadTerm* term : {&ctog, &gtoc}) term->slope[hc] = term->slope[hd] = h / pcie;
    dtoc.slope[wd] = weights_ / disk;
    ctod.slope[cd] = prompt_cache_ / disk;
    for (OffloadTerm* term : {&dtoc, &ctod}) term->slope[hd] = h / disk;
    comp.constant = prefill_s_;
  }

  void set_decode(OffloadStage& stage, double pcie, double disk, double host_attention) const {
    const double h = layers_ * hidden_bytes(sizes_.block, 1);
    auto& [ctog, gtoc, dtoc, ctod, comp] = stage.decode;
    ctog.slope[wc] = ctog.slope[wd] = weights_ / pcie;
    for (OffloadTerm* term : {&ctog, &gtoc}) term->slope[hc] = term->slope[hd] = h / pcie;
    dtoc.slope[wd] = weights_ / disk;
    dtoc.slope[cd] = mean_cache_ / disk;
    ctod.slope[cd] = token_cache_ / disk;
    for (OffloadTerm* term : {&dtoc, &ctod}) term->slope[hd] = h / disk;
    comp.constant = decode_s_;
    comp.slope[cg] = attention_s_;
    comp.slope[cc] = comp.slope[cd] = mean_cache_ / host_attention;
  }

  void set_ends(OffloadStage& stage) const {
    const bool head_here =
        serving_.memory == cost::MemoryPreset::llm_pq ? place_.first : place_.last;
    if (place_.first) {
      stage.prefill_end_s +=
          latency_->embedding_s(serving_.model, sizes_.block * sizes_.prompt).value;
      stage.decode_end_s += latency_->embedding_s(serving_.model, sizes_.block).value;
    }
    if (head_here) {
      const double head = latency_->lm_head_s(serving_.model, sizes_.block).value;
      stage.prefill_end_s += head;
      stage.decode_end_s += head;
    }
  }

  void set_device_memory(OffloadStage& stage) const {
    stage.usable_bytes = device_.memory_bytes - cost::reserve_bytes(device_, query());
    stage.embedding_bytes =
        cost::embedding_bytes(serving_.model, place_.first, place_.last, query());
    // What is not at home here comes through two buffers, one filled while the other is used.
    stage.weights.slope[wg] = weights_;
    stage.weights.slope[wc] = stage.weights.slope[wd] = 2 * largest_layer_;
    stage.kv_cache.slope[cg] = cache_;
    Workload whole_prompts = serving_.workload;
    whole_prompts.chunk_tokens.reset();
    const auto batch = static_cast<std::int64_t>(sizes_.batch);
    const auto set = [&](OffloadTerm& term, double tokens, double activations) {
      term.constant = stage.embedding_bytes + decompressed_ + activations;
      for (std::size_t i = 0; i < kOffloadShares; ++i)
        term.slope[i] = stage.weights.slope[i] + stage.kv_cache.slope[i];
      term.slope[hg] = hidden_bytes(sizes_.block, tokens);
      term.slope[hc] = term.slope[hd] = hidden_bytes(sizes_.batch, tokens);
    };
    set(stage.device_prefill, sizes_.max_prompt,
        cost::prefill_activation_bytes(serving_.model, whole_prompts, batch, place_.first,
                                       place_.last, query()));
    set(stage.device_decode, 1,
        cost::decode_activation_bytes(serving_.model, whole_prompts, batch, place_.first,
                                      place_.last, query()));
    stage.device_decode.slope[cg] += batch_layer_cache_;  // the batch's cache of one layer, grown
  }

  void set_host_memory(OffloadStage& stage) const {
    const double block = hidden_bytes(sizes_.block, sizes_.max_prompt);
    const double batch = hidden_bytes(sizes_.batch, sizes_.max_prompt);
    OffloadTerm& prefill = stage.host_prefill;
    prefill.slope[wc] = weights_ + largest_layer_;
    prefill.slope[wd] = largest_layer_;
    prefill.slope[cc] = cache_;
    prefill.slope[hc] = block + batch;
    prefill.slope[hd] = batch;
    OffloadTerm& decode = stage.host_decode;
    decode.slope[wc] = weights_;
    decode.slope[wd] = largest_layer_;
    decode.slope[cc] = cache_ + attention_workspace();
    decode.slope[cd] = 2 * batch_layer_cache_ + attention_workspace();
    decode.slope[hc] = hidden_bytes(sizes_.block, 1);
    decode.slope[hd] = 2 * hidden_bytes(sizes_.batch, 1);
    stage.disk.slope[wd] = weights_;
    stage.disk.slope[cd] = cache_;
    stage.disk.slope[hd] = block;
  }

  /// Scores and outputs of attention on the host, FP16.
  double attention_workspace() const {
    return sizes_.batch * kHiddenBytes * (heads_ * sizes_.max_context + sizes_.hidden);
  }

  const ServingProblem& serving_;
  const Sizes& sizes_;
  const Device& device_;
  StagePlace place_;
  std::unique_ptr<cost::LatencyModel> latency_;
  double layers_ = 0, heads_ = 0;
  double weights_ = 0, largest_layer_ = 0, decompressed_ = 0;   ///< bytes
  double cache_ = 0;                                            ///< whole batch at full length
  double prompt_cache_ = 0, mean_cache_ = 0, token_cache_ = 0;  ///< of a block
  double batch_layer_cache_ = 0;
  double prefill_s_ = 0, decode_s_ = 0, attention_s_ = 0;
};

Sizes sizes_of(const ServingProblem& serving, const Candidate& candidate,
               const PlanOffload& settings) {
  const Workload& w = serving.workload;
  Sizes sizes;
  sizes.block = static_cast<double>(candidate.prefill_micro_batch_size);
  sizes.batch = static_cast<double>(settings.gpu_batch_size);
  sizes.batches =
      static_cast<double>(ceil_div(candidate.prefill_micro_batch_size, settings.gpu_batch_size));
  sizes.prompt = w.prompt_tokens;
  sizes.mean_context = w.prompt_tokens + w.output_tokens / 2;
  sizes.max_prompt = static_cast<double>(w.max_prompt_tokens);
  sizes.max_context = static_cast<double>(w.max_prompt_tokens + w.max_output_tokens);
  sizes.hidden = static_cast<double>(serving.model.hidden_size);
  return sizes;
}

}  // namespace

std::optional<Violation> find_offload_obstacle(const Problem& problem, const Instance& instance,
                                               const Candidate& candidate,
                                               const PlanOffload& settings) {
  if (!problem.serving) {
    return Violation{"offload",
                     "offloading needs a model, a cluster and a workload; an instance file says "
                     "nothing of host memory, disks and transfers"};
  }
  if (candidate.first_layer.back() != instance.num_layers()) {
    return Violation{"contiguity",
                     fmt::format("the stages hold {} layers of {}", candidate.first_layer.back(),
                                 instance.num_layers())};
  }
  for (std::size_t k = 0; k < candidate.order.size(); ++k) {
    if (candidate.first_layer[k] == candidate.first_layer[k + 1])
      return Violation{"empty_stage", fmt::format("stage {} holds no decoder layer", k + 1)};
  }
  if (candidate.prefill_micro_batch_size > instance.batch_size) {
    return Violation{"micro_batch",
                     fmt::format("micro-batches of {} are more than the batch of {}",
                                 candidate.prefill_micro_batch_size, instance.batch_size)};
  }
  if (candidate.prefill_micro_batch_size != candidate.decode_micro_batch_size) {
    return Violation{
        "micro_batch",
        fmt::format("FlexGen has one block size for both phases, not {} in prefill "
                    "and {} in decode; fix one of them, or both to the same",
                    candidate.prefill_micro_batch_size, candidate.decode_micro_batch_size)};
  }
  if (settings.gpu_batch_size > candidate.prefill_micro_batch_size) {
    return Violation{"micro_batch",
                     fmt::format("a GPU batch of {} does not fit into micro-batches of {}",
                                 settings.gpu_batch_size, candidate.prefill_micro_batch_size)};
  }
  const Cluster& cluster = problem.serving->cluster;
  for (const std::size_t d : devices_of(cluster, candidate)) {
    const ClusterDevice& slot = cluster.devices[d];
    const Node& node = cluster.nodes[slot.node_index];
    if (!node.host_memory_bytes) {
      return Violation{"offload",
                       fmt::format("the cluster does not say how much memory node {} has; give "
                                   "host_memory_gib, and disk_bytes_per_s where there is a disk",
                                   quote(node.name))};
    }
    if (problem.serving->kernel_set.find(slot.device, kComputeBits) == nullptr) {
      return Violation{"kernel",
                       fmt::format("FlexGen computes at 16 bits, for which {} has no kernel in "
                                   "kernel set {}",
                                   slot.device.name, quote(problem.serving->kernel_set.name))};
    }
  }
  return std::nullopt;
}

OffloadModel offload_model(const Problem& problem, const Instance& instance,
                           const Candidate& candidate, const PlanOffload& settings) {
  const ServingProblem& serving = *problem.serving;
  const Cluster& cluster = serving.cluster;
  const Sizes sizes = sizes_of(serving, candidate, settings);
  const std::vector<std::size_t> devices = devices_of(cluster, candidate);
  std::vector<double> sharers(cluster.nodes.size(), 0);
  for (const std::size_t d : devices) ++sharers[cluster.devices[d].node_index];
  OffloadModel model;
  model.num_blocks = static_cast<double>(
      ceil_div(serving.workload.batch_size, candidate.prefill_micro_batch_size));
  model.decode_steps = std::max(0.0, serving.workload.output_tokens - 1);
  for (const Node& node : cluster.nodes) {
    model.host_bytes.push_back(node.host_memory_bytes.value_or(0) * settings.host_memory_ratio);
    model.node_names.push_back(node.name);
  }
  for (std::size_t k = 0; k < devices.size(); ++k) {
    StageBuilder builder(serving, sizes, devices[k], {k == 0, k + 1 == devices.size()});
    for (auto i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
      builder.add_layer(serving.model.layer(static_cast<std::int64_t>(i)),
                        instance.bitwidths[candidate.bit[i]]);
    }
    const std::size_t node = cluster.devices[devices[k]].node_index;
    model.stages.push_back(builder.build(node, sharers[node], settings));
    if (k == 0) continue;
    const Link link = cluster.link(devices[k - 1], devices[k]);
    const double token_bytes = sizes.block * sizes.hidden * kHiddenBytes;
    model.prefill_link_s.push_back(link.latency_s + sizes.prompt * token_bytes / link.bytes_per_s);
    model.decode_link_s.push_back(link.latency_s + token_bytes / link.bytes_per_s);
  }
  return model;
}

OffloadEvaluation evaluate_offload(const OffloadModel& model,
                                   const std::vector<StageOffload>& shares) {
  OffloadEvaluation e;
  double prefill_sum = 0, decode_sum = 0, prefill_max = 0, decode_max = 0;
  for (const double s : model.prefill_link_s) prefill_max = std::max(prefill_max, s);
  for (const double s : model.decode_link_s) decode_max = std::max(decode_max, s);
  for (std::size_t k = 0; k < model.stages.size(); ++k) {
    const OffloadStage& stage = model.stages[k];
    double prefill = 0, decode = 0;
    for (const OffloadTerm& t : stage.prefill) prefill = std::max(prefill, t.at(shares[k]));
    for (const OffloadTerm& t : stage.decode) decode = std::max(decode, t.at(shares[k]));
    e.prefill_s.push_back(prefill + stage.prefill_end_s);
    e.decode_s.push_back(decode + stage.decode_end_s);
    prefill_sum += e.prefill_s.back();
    decode_sum += e.decode_s.back();
    prefill_max = std::max(prefill_max, e.prefill_s.back());
    decode_max = std::max(decode_max, e.decode_s.back());
  }
  e.latency_s = (model.num_blocks - 1) * prefill_max + prefill_sum +
                model.decode_steps * std::max(model.num_blocks * decode_max, decode_sum);
  return e;
}

Violation explain_no_offload(const OffloadModel& model, const PlanOffload& settings) {
  // Everything on the host: the least that a device can hold.
  const TierRatios away{0, 1, 0};
  const StageOffload nothing_here{away, away, away, 0, 0};
  std::vector<double> on_host(model.host_bytes.size(), 0);
  for (std::size_t k = 0; k < model.stages.size(); ++k) {
    const OffloadStage& stage = model.stages[k];
    const double least =
        std::max(stage.device_prefill.at(nothing_here), stage.device_decode.at(nothing_here));
    if (least > stage.usable_bytes) {
      return {"memory",
              fmt::format("stage {} needs {} for embeddings, buffers and a GPU batch of {} even "
                          "with everything else offloaded, its device has {}",
                          k + 1, format_bytes(least), settings.gpu_batch_size,
                          format_bytes(stage.usable_bytes))};
    }
    on_host[stage.node_index] +=
        std::max(stage.host_prefill.at(nothing_here), stage.host_decode.at(nothing_here)) -
        (stage.usable_bytes - least);
  }
  for (std::size_t n = 0; n < on_host.size(); ++n) {
    if (on_host[n] <= model.host_bytes[n]) continue;
    return {"memory",
            fmt::format("of what its stages hold, node {} has to keep at least {}, but may use {} "
                        "({:.0f} % of its memory), and its disk cannot take the rest",
                        quote(model.node_names[n]), format_bytes(on_host[n]),
                        format_bytes(model.host_bytes[n]), 100 * settings.host_memory_ratio)};
  }
  return {"memory", "device, host and disk together do not hold the model and its cache"};
}

}  // namespace tessera::solver
