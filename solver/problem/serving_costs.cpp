#include "serving_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/cost/tensor_parallel.h"
#include "tessera/solver/problem/serving_latency.h"

namespace tessera::solver {
namespace {

constexpr double kActivationBytes = 2;  // hidden states travel in FP16

// From each group to the next: bridges join some neighbours and not others.
Link slowest_step(const Cluster& cluster, const std::vector<std::vector<std::size_t>>& members) {
  Link slowest = slowest_link(cluster, members[0], members[1]);
  for (std::size_t i = 2; i < members.size(); ++i) {
    const Link link = slowest_link(cluster, members[i - 1], members[i]);
    if (link.bytes_per_s < slowest.bytes_per_s) slowest = link;
  }
  return slowest;
}

}  // namespace

ServingCosts::ServingCosts(const ServingProblem& serving, std::shared_ptr<SharedTimes> times)
    : serving_(serving),
      groups_(mesh_groups(serving.cluster, serving.mesh)),
      times_(times ? std::move(times) : std::make_shared<SharedTimes>()) {
  for (const MeshGroup& group : groups_) {
    if (const auto reason = cost::why_not_sharded(serving_.model, group.degree)) {
      throw Error(ErrorCode::invalid_argument, "mesh: " + *reason, "mesh");
    }
    kinds_.push_back(times_->number_of(kind_of(models_.size())));
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
    const GroupTimes& times = times_->get(kinds_[g], phase, static_cast<std::int64_t>(size),
                                          [&] { return times_of(g, size, rows, work); });
    costs.layer_s.insert(costs.layer_s.end(), times.layer_s.begin(), times.layer_s.end());
    const bool both_first = serving_.memory == cost::MemoryPreset::llm_pq;
    costs.first_s.push_back(both_first ? times.embedding_s + times.head_s : times.embedding_s);
    costs.last_s.push_back(both_first ? 0 : times.head_s);
  }
  add_links(costs, rows * static_cast<double>(serving_.model.hidden_size) * kActivationBytes);
  add_activations(costs, static_cast<std::int64_t>(size), phase);
  return costs;
}

const Device& ServingCosts::device_of(std::size_t g) const {
  return serving_.cluster.devices[groups_[g].members.front().front()].device;
}

bool ServingCosts::has_kernels(std::size_t g) const {
  return std::any_of(serving_.bitwidths.begin(), serving_.bitwidths.end(),
                     [&](std::int32_t bitwidth) {
                       return serving_.kernel_set.find(device_of(g), bitwidth) != nullptr;
                     });
}

// All that the times of a group depend on, besides what problems that share times have in common.
std::string ServingCosts::kind_of(std::size_t g) const {
  const std::vector<std::size_t>& members = groups_[g].members.front();
  const Link link = slowest_link(serving_.cluster, members, members);
  return fmt::format("{} x {} over {} {:.17g} {:.17g}, {} {} bit", members.size(),
                     device_of(g).name, link.kind, link.bytes_per_s, link.latency_s,
                     serving_.kernel_set.name, serving_.kv_bitwidth);
}

GroupTimes ServingCosts::times_of(std::size_t g, double size, double rows,
                                  const std::vector<cost::LayerWork>& work) const {
  const auto count = static_cast<double>(work.size());
  GroupTimes times;
  for (const LayerShape& layer : serving_.model.layer_classes) {
    for (const std::int32_t bit : serving_.bitwidths) {
      double total = 0;
      if (serving_.kernel_set.find(device_of(g), bit) != nullptr) {
        for (const cost::LayerWork& unit : work) {
          total += models_[g]->layer_s(layer, bit, serving_.kv_bitwidth, unit);
        }
      }
      times.layer_s.push_back(total / count);
    }
  }
  if (!has_kernels(g)) return times;  // no layer may be there, so nobody asks for its ends
  times.embedding_s =
      serving_.kernel_set.host_s(size, rows) + models_[g]->embedding_s(serving_.model, rows);
  times.head_s = models_[g]->lm_head_s(serving_.model, size) / count;
  return times;
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
      const Link link = from == to ? slowest_step(serving_.cluster, source)
                                   : slowest_link(serving_.cluster, source.front(), target.front());
      costs.link_s.push_back(hop_s(serving_, source.front().front(), link, bytes));
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
