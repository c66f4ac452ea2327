#include "src/serving_costs.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

constexpr double kActivationBytes = 2;  // hidden states travel in FP16

}  // namespace

std::unique_ptr<cost::LatencyModel> device_model_of(const ServingProblem& serving,
                                                    const Device& device) {
  for (const auto& profile : serving.profiles) {
    if (profile->device.name == device.name) {
      return cost::make_profiled(profile, serving.kernel_set);
    }
  }
  return cost::make_roofline(device, serving.kernel_set);
}

std::unique_ptr<cost::LatencyModel> latency_model_of(const ServingProblem& serving,
                                                     const std::vector<std::size_t>& members) {
  const Cluster& cluster = serving.cluster;
  auto member = device_model_of(serving, cluster.devices[members.front()].device);
  return cost::make_tensor_parallel(std::move(member), static_cast<std::int64_t>(members.size()),
                                    slowest_link(cluster, members, members));
}

std::vector<cost::LayerWork> units_of(const Workload& workload, double size, cost::Phase phase) {
  if (phase == cost::Phase::decode) {
    return {{phase, size, 1, workload.mean_context_tokens()}};
  }
  std::vector<cost::LayerWork> work;
  double before = 0;
  for (std::int64_t chunk = 0; chunk < workload.num_chunks(); ++chunk) {
    const auto tokens = static_cast<double>(workload.tokens_in_chunk(chunk));
    work.push_back({phase, size, tokens, before});
    before += tokens;
  }
  return work;
}

std::vector<std::vector<std::size_t>> stage_members(const ServingProblem& serving,
                                                    const std::vector<std::size_t>& order) {
  const std::vector<MeshGroup> groups = mesh_groups(serving.cluster, serving.mesh);
  std::vector<std::size_t> used(groups.size(), 0);
  std::vector<std::vector<std::size_t>> stages;
  for (const std::size_t g : order) stages.push_back(groups[g].members[used[g]++]);
  return stages;
}

ServingCosts::ServingCosts(const ServingProblem& serving)
    : serving_(serving), groups_(mesh_groups(serving.cluster, serving.mesh)) {
  for (const MeshGroup& group : groups_) {
    if (const auto reason = cost::why_not_sharded(serving_.model, group.degree)) {
      throw Error(ErrorCode::invalid_argument, "mesh: " + *reason, "mesh");
    }
    models_.push_back(latency_model_of(serving_, group.members.front()));
    if (std::find(degrees_.begin(), degrees_.end(), group.degree) != degrees_.end()) continue;
    degrees_.push_back(group.degree);
    shards_.push_back(cost::shard(serving_.model, group.degree));
  }
}

// Links and activations grow with the size in any case.
bool ServingCosts::are_monotone() const {
  return std::all_of(models_.begin(), models_.end(),
                     [](const auto& model) { return model->is_monotone(); });
}

const PhaseCosts& ServingCosts::get(std::map<std::int64_t, PhaseCosts>& known, std::int64_t size,
                                    cost::Phase phase) {
  const auto it = known.find(size);
  if (it != known.end()) return it->second;
  return known.emplace(size, compute(static_cast<double>(size), phase)).first->second;
}

PhaseCosts ServingCosts::compute(double size, cost::Phase phase) const {
  const std::vector<cost::LayerWork> work = units_of(serving_.workload, size, phase);
  const auto count = static_cast<double>(work.size());
  double rows = 0;
  for (const cost::LayerWork& unit : work) rows += size * unit.tokens / count;
  PhaseCosts costs;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    add_layers(costs, g, work);
    const double embedding = models_[g]->embedding_s(serving_.model, rows).value;
    const double head = models_[g]->lm_head_s(serving_.model, size).value / count;
    const bool both_first = serving_.memory == cost::MemoryPreset::llm_pq;
    costs.first_s.push_back(both_first ? embedding + head : embedding);
    costs.last_s.push_back(both_first ? 0 : head);
  }
  add_links(costs, rows * static_cast<double>(serving_.model.hidden_size) * kActivationBytes);
  add_activations(costs, static_cast<std::int64_t>(size), phase);
  return costs;
}

void ServingCosts::add_layers(PhaseCosts& costs, std::size_t g,
                              const std::vector<cost::LayerWork>& work) const {
  const Device& device = serving_.cluster.devices[groups_[g].members.front().front()].device;
  for (const LayerShape& layer : serving_.model.layer_classes) {
    for (std::int32_t bit : serving_.bitwidths) {
      double total = 0;
      if (serving_.kernel_set.find(device, bit) != nullptr) {
        for (const cost::LayerWork& unit : work) {
          total += models_[g]->layer_s(layer, bit, serving_.kv_bitwidth, unit).value;
        }
      }
      costs.layer_s.push_back(total / static_cast<double>(work.size()));
    }
  }
}

void ServingCosts::add_links(PhaseCosts& costs, double bytes) const {
  for (std::size_t from = 0; from < groups_.size(); ++from) {
    for (std::size_t to = 0; to < groups_.size(); ++to) {
      const auto& source = groups_[from].members;
      const auto& target = groups_[to].members;
      if (from == to && source.size() == 1) {
        costs.link_s.push_back(0);  // no second device of this group to talk to
        continue;
      }
      const Link link =
          slowest_link(serving_.cluster, source.front(), from == to ? target[1] : target.front());
      costs.link_s.push_back(link.latency_s + bytes / link.bytes_per_s);
    }
  }
}

void ServingCosts::add_activations(PhaseCosts& costs, std::int64_t size, cost::Phase phase) const {
  const cost::MemoryQuery query = memory_query(serving_);
  const auto bytes = phase == cost::Phase::prefill ? cost::prefill_activation_bytes
                                                   : cost::decode_activation_bytes;
  costs.activation_bytes.clear();
  for (std::size_t row = 0; row < degrees_.size(); ++row) {
    for (const StagePlace place : kStagePlaces) {
      costs.activation_bytes.push_back(degrees_[row] *
                                       bytes(shards_[row], serving_.workload, size, place, query));
    }
  }
}

}  // namespace tessera::solver
