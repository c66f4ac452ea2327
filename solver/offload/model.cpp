// The cost model of offloading: a pipeline of stages whose terms are linear in the shares.

#include <algorithm>

#include "stage.h"
#include "tessera/core/units.h"
#include "tessera/solver/offload/offload.h"

namespace tessera::solver {

using offload::build_stage;
using offload::Sizes;
using offload::StoredLayer;

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

Sizes sizes_of(const BatchProblem& batch, const Candidate& candidate, const PlanOffload& settings) {
  const Workload& w = batch.workload;
  Sizes sizes;
  sizes.block = static_cast<double>(candidate.prefill_micro_batch_size);
  sizes.batch = static_cast<double>(settings.gpu_batch_size);
  sizes.batches =
      static_cast<double>(ceil_div(candidate.prefill_micro_batch_size, settings.gpu_batch_size));
  sizes.prompt = w.prompt_tokens;
  sizes.mean_context = w.prompt_tokens + w.output_tokens / 2;
  sizes.max_prompt = static_cast<double>(w.max_prompt_tokens);
  sizes.max_context = static_cast<double>(w.max_prompt_tokens + w.max_output_tokens);
  sizes.hidden = static_cast<double>(batch.model.hidden_size);
  return sizes;
}

}  // namespace

OffloadModel offload_model(const Problem& problem, const Instance& instance,
                           const Candidate& candidate, const PlanOffload& settings) {
  const BatchProblem& batch = *problem.batch();
  const Cluster& cluster = batch.cluster;
  const Sizes sizes = sizes_of(batch, candidate, settings);
  std::vector<std::size_t> devices;  // there are no tensor-parallel groups
  for (const auto& members : stage_members(batch, candidate.order)) {
    devices.push_back(members.front());
  }
  std::vector<double> sharers(cluster.nodes.size(), 0);
  for (const std::size_t d : devices) ++sharers[cluster.devices[d].node_index];
  OffloadModel model;
  model.num_blocks =
      static_cast<double>(ceil_div(batch.workload.batch_size, candidate.prefill_micro_batch_size));
  model.decode_steps = std::max(0.0, batch.workload.output_tokens - 1);
  for (const Node& node : cluster.nodes) {
    model.host_bytes.push_back(node.host_memory_bytes.value_or(0) * settings.host_memory_ratio);
    model.node_names.push_back(node.name);
  }
  for (std::size_t k = 0; k < devices.size(); ++k) {
    std::vector<StoredLayer> layers;
    for (auto i = candidate.first_layer[k]; i < candidate.first_layer[k + 1]; ++i) {
      layers.push_back(
          {&batch.model.layer(static_cast<std::int64_t>(i)), instance.bitwidths[candidate.bit[i]]});
    }
    model.stages.push_back(build_stage(batch, sizes, devices[k], place_at(k, devices.size()),
                                       layers, sharers[cluster.devices[devices[k]].node_index],
                                       settings));
    if (k == 0) continue;
    const Link link = cluster.link(devices[k - 1], devices[k]);
    const double token_bytes = sizes.block * sizes.hidden * offload::kActivationBytes;
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

}  // namespace tessera::solver
