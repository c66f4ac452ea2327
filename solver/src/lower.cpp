// From models and devices to the abstract instance that solvers see.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"
#include "tessera/cost/latency.h"
#include "tessera/solver/instance_file.h"
#include "tessera/solver/problem.h"

namespace tessera::solver {
namespace {

constexpr double kActivationBytes = 2;  // hidden states travel in FP16

/// Costs of one serving problem by micro-batch size; computed on demand and kept.
class ServingCosts {
 public:
  explicit ServingCosts(const ServingProblem& serving)
      : serving_(serving), devices_(group_devices(serving.cluster)) {
    for (const auto& group : devices_) {
      models_.push_back(
          cost::make_roofline(serving_.cluster.devices[group.front()].device, serving_.kernel_set));
    }
  }

  const PhaseCosts& prefill(std::int64_t size) { return get(prefill_, size, cost::Phase::prefill); }
  const PhaseCosts& decode(std::int64_t size) { return get(decode_, size, cost::Phase::decode); }

 private:
  const PhaseCosts& get(std::map<std::int64_t, PhaseCosts>& known, std::int64_t size,
                        cost::Phase phase) {
    const auto it = known.find(size);
    if (it != known.end()) return it->second;
    return known.emplace(size, compute(static_cast<double>(size), phase)).first->second;
  }

  /// Mean over the units of a phase: chunks of a prompt, or the one mean decode step.
  std::vector<cost::LayerWork> units(double size, cost::Phase phase) const {
    const Workload& w = serving_.workload;
    if (phase == cost::Phase::decode) {
      return {{phase, size, 1, w.prompt_tokens + w.output_tokens / 2}};
    }
    std::vector<cost::LayerWork> work;
    double before = 0;
    for (std::int64_t chunk = 0; chunk < w.num_chunks(); ++chunk) {
      const auto tokens = static_cast<double>(w.tokens_in_chunk(chunk));
      work.push_back({phase, size, tokens, before});
      before += tokens;
    }
    return work;
  }

  PhaseCosts compute(double size, cost::Phase phase) const {
    const std::vector<cost::LayerWork> work = units(size, phase);
    const auto count = static_cast<double>(work.size());
    double rows = 0;
    for (const cost::LayerWork& unit : work) rows += size * unit.tokens / count;
    PhaseCosts costs;
    for (std::size_t g = 0; g < devices_.size(); ++g) {
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

  void add_layers(PhaseCosts& costs, std::size_t g,
                  const std::vector<cost::LayerWork>& work) const {
    const Device& device = serving_.cluster.devices[devices_[g].front()].device;
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

  void add_links(PhaseCosts& costs, double bytes) const {
    for (std::size_t from = 0; from < devices_.size(); ++from) {
      for (std::size_t to = 0; to < devices_.size(); ++to) {
        const auto& source = devices_[from];
        const auto& target = devices_[to];
        if (from == to && source.size() == 1) {
          costs.link_s.push_back(0);  // no second device of this group to talk to
          continue;
        }
        const Link link =
            serving_.cluster.link(source.front(), from == to ? target[1] : target.front());
        costs.link_s.push_back(link.latency_s + bytes / link.bytes_per_s);
      }
    }
  }

  void add_activations(PhaseCosts& costs, std::int64_t size, cost::Phase phase) const {
    const cost::MemoryQuery query{serving_.memory, serving_.kv_bitwidth};
    for (StagePlace place : {StagePlace{false, false}, StagePlace{true, false},
                             StagePlace{false, true}, StagePlace{true, true}}) {
      const auto bytes = phase == cost::Phase::prefill ? cost::prefill_activation_bytes
                                                       : cost::decode_activation_bytes;
      costs.activation_bytes[place.index()] =
          bytes(serving_.model, serving_.workload, size, place.first, place.last, query);
    }
  }

  ServingProblem serving_;
  std::vector<std::vector<std::size_t>> devices_;
  std::vector<std::unique_ptr<cost::LatencyModel>> models_;
  std::map<std::int64_t, PhaseCosts> prefill_, decode_;
};

void set_omega(Instance& instance, const Problem& problem) {
  const ServingProblem& serving = *problem.serving;
  const indicator::Indicator& indicator = serving.indicator;
  if (indicator.num_layers != static_cast<std::size_t>(serving.model.num_layers)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("problem.indicator: it has {} layers, {} has {}", indicator.num_layers,
                            serving.model.name, serving.model.num_layers),
                "problem.indicator");
  }
  double scale = 1;
  if (problem.theta_unit == ThetaUnit::s_per_normalised_omega) {
    // Normalised at 4 bits, or at the lowest bitwidth there is when the indicator does not know 4.
    const std::int32_t reference = indicator.has(4) ? 4 : indicator.bitwidths.front();
    double total = 0;
    for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
      total += indicator.at(layer, reference);
    }
    if (total > 0) scale = 1 / total;
  }
  for (std::size_t layer = 0; layer < indicator.num_layers; ++layer) {
    for (std::int32_t bit : instance.bitwidths) {
      instance.omega.push_back(scale * indicator.at(layer, bit));
    }
  }
}

Instance lower_serving(const Problem& problem) {
  const ServingProblem& serving = *problem.serving;
  const cost::MemoryQuery query{serving.memory, serving.kv_bitwidth};
  Instance instance;
  instance.name = fmt::format("{} on {}", serving.model.name, serving.cluster.name);
  instance.bitwidths = serving.bitwidths;
  instance.layer_class = serving.model.layer_class;
  instance.num_classes = static_cast<std::int32_t>(serving.model.layer_classes.size());
  for (const auto& devices : group_devices(serving.cluster)) {
    const ClusterDevice& slot = serving.cluster.devices[devices.front()];
    instance.groups.push_back({slot.device.name, serving.cluster.nodes[slot.node_index].name,
                               static_cast<std::int32_t>(devices.size()),
                               slot.device.memory_bytes - cost::reserve_bytes(slot.device, query)});
    for (std::int32_t bit : serving.bitwidths) {
      instance.allowed.push_back(serving.kernel_set.find(slot.device, bit) != nullptr ? 1 : 0);
    }
  }
  for (const LayerShape& layer : serving.model.layer_classes) {
    const double kv = cost::layer_kv_bytes(layer, serving.workload, query);
    for (std::int32_t bit : serving.bitwidths) {
      instance.layer_bytes.push_back(kv + cost::layer_weight_bytes(layer, bit, query));
    }
  }
  for (StagePlace place : {StagePlace{false, false}, StagePlace{true, false},
                           StagePlace{false, true}, StagePlace{true, true}}) {
    instance.embedding_bytes[place.index()] =
        cost::embedding_bytes(serving.model, place.first, place.last, query);
  }
  set_omega(instance, problem);
  instance.batch_size = serving.workload.batch_size;
  instance.num_chunks = serving.workload.num_chunks();
  instance.output_tokens = serving.workload.output_tokens;
  const auto costs = std::make_shared<ServingCosts>(serving);
  instance.prefill = [costs](std::int64_t size) -> const PhaseCosts& {
    return costs->prefill(size);
  };
  instance.decode = [costs](std::int64_t size) -> const PhaseCosts& { return costs->decode(size); };
  return instance;
}

}  // namespace

std::vector<std::vector<std::size_t>> group_devices(const Cluster& cluster) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::pair<std::string, std::size_t>, std::size_t> known;
  for (std::size_t i = 0; i < cluster.devices.size(); ++i) {
    const ClusterDevice& slot = cluster.devices[i];
    const auto [it, fresh] = known.try_emplace({slot.device.name, slot.node_index}, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(i);
  }
  return groups;
}

Instance lower(const Problem& problem) {
  Instance instance = problem.serving
                          ? lower_serving(problem)
                          : instance_from_json(*problem.instance, problem.instance_path);
  instance.objective = problem.objective;
  instance.theta =
      problem.theta_unit == ThetaUnit::ms_per_raw_omega ? problem.theta * 1e-3 : problem.theta;
  instance.max_omega = problem.max_omega;
  instance.allow_empty_stage = problem.allow_empty_stage;
  for (std::size_t i = 0; i < problem.constraints.size(); ++i) {
    instance.rows.push_back(
        resolve(problem.constraints[i], instance, fmt::format("problem.constraints[{}]", i + 1)));
  }
  return instance;
}

std::vector<std::size_t> order_from_names(const Instance& instance,
                                          const std::vector<std::string>& names) {
  std::vector<std::size_t> order;
  std::vector<std::int32_t> left;
  std::vector<std::string> known;
  for (const DeviceGroup& group : instance.groups) {
    left.push_back(group.count);
    known.push_back(group.name);
  }
  for (std::size_t k = 0; k < names.size(); ++k) {
    const std::size_t at = names[k].find('@');
    const std::string name = names[k].substr(0, at);
    const std::string node = at == std::string::npos ? "" : names[k].substr(at + 1);
    std::optional<std::size_t> found;
    bool exists = false;
    for (std::size_t g = 0; g < instance.groups.size() && !found; ++g) {
      if (instance.groups[g].name != name || (!node.empty() && instance.groups[g].node != node)) {
        continue;
      }
      exists = true;
      if (left[g] > 0) found = g;
    }
    const std::string where = fmt::format("device_order[{}]", k + 1);
    if (!exists) {
      throw Error(ErrorCode::not_found,
                  fmt::format("{}: the cluster has no {}{}", where, quote(names[k]),
                              did_you_mean(name, known)),
                  where);
    }
    if (!found) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: the cluster has no {} left; name each device at most as often "
                              "as it is there",
                              where, quote(names[k])),
                  where);
    }
    --left[*found];
    order.push_back(*found);
  }
  if (order.empty()) {
    throw Error(ErrorCode::invalid_argument, "device_order: it is empty; name at least one device",
                "device_order");
  }
  return order;
}

}  // namespace tessera::solver
