#include "batch_costs.h"

#include <algorithm>

#include "tessera/core/error.h"
#include "tessera/cost/collectives.h"
#include "tessera/cost/device_group.h"
#include "tessera/cost/tensor_parallel.h"

namespace tessera::solver {
namespace {

// From each group to the next: bridges join some neighbours and not others.
Link slowest_step(const Cluster& cluster, const std::vector<std::vector<std::size_t>>& members) {
  Link slowest = cost::slowest_link(cluster, members[0], members[1]);
  for (std::size_t i = 2; i < members.size(); ++i) {
    const Link link = cost::slowest_link(cluster, members[i - 1], members[i]);
    if (link.bytes_per_s < slowest.bytes_per_s) slowest = link;
  }
  return slowest;
}

}  // namespace

BatchCosts::BatchCosts(const BatchProblem& batch, std::shared_ptr<cost::PriceCache> known)
    : batch_(batch),
      groups_(groups_of(batch)),
      known_(known ? std::move(known) : std::make_shared<cost::PriceCache>()) {
  for (const MeshGroup& group : groups_) {
    if (const auto reason = cost::why_not_sharded(batch_.model, group.degree, batch_.split)) {
      throw Error(ErrorCode::invalid_argument, "mesh: " + *reason, "mesh");
    }
    const std::vector<std::size_t>& members = group.members.front();
    const auto attention = attention_of(batch_, members.front());
    numbers_.push_back(
        known_->number_of(cost::group_key(batch_, members, batch_.kv_bitwidth, {}, attention)));
    prices_.push_back(cost::make_stage_price(batch_, members, batch_.kv_bitwidth, {}, attention));
    has_kernels_.push_back(std::any_of(
        batch_.bitwidths.begin(), batch_.bitwidths.end(),
        [&](std::int32_t bitwidth) { return cost::has_kernel(batch_, members, bitwidth); }));
    const Sharding sharding{group.degree, attention ? attention->ratio : 0};
    const auto row = std::find(shardings_.begin(), shardings_.end(), sharding);
    sharding_of_.push_back(static_cast<std::size_t>(row - shardings_.begin()));
    if (row != shardings_.end()) continue;
    shardings_.push_back(sharding);
    shards_.push_back(cost::shard(batch_.model, group.degree, batch_.split));
  }
}

// Links and activations grow with the size in any case.
bool BatchCosts::are_monotone() const {
  return std::all_of(prices_.begin(), prices_.end(),
                     [](const auto& price) { return price->is_monotone(); });
}

const PhaseCosts& BatchCosts::get(std::map<std::int64_t, PhaseCosts>& known, std::int64_t size,
                                  cost::Phase phase) {
  const auto it = known.find(size);
  if (it != known.end()) return it->second;
  return known.emplace(size, compute(static_cast<double>(size), phase)).first->second;
}

PhaseCosts BatchCosts::compute(double size, cost::Phase phase) const {
  const std::vector<cost::LayerWork> work = cost::units_of(batch_.workload, size, phase);
  const auto count = static_cast<double>(work.size());
  double rows = 0;
  for (const cost::LayerWork& unit : work) rows += size * unit.tokens / count;
  PhaseCosts costs;
  for (std::size_t g = 0; g < groups_.size(); ++g) add_group(costs, g, size, rows, phase, work);
  add_links(costs, rows);
  add_activations(costs, static_cast<std::int64_t>(size), phase);
  return costs;
}

void BatchCosts::add_group(PhaseCosts& costs, std::size_t g, double size, double rows,
                           cost::Phase phase, const std::vector<cost::LayerWork>& work) const {
  std::int64_t bitwidths = 0;  // a bit for each
  for (const std::int32_t bitwidth : batch_.bitwidths) bitwidths |= std::int64_t{1} << bitwidth;
  const cost::PriceKey key{numbers_[g],
                           cost::PricePart::micro_batch,
                           phase,
                           {},
                           {static_cast<std::int64_t>(size), bitwidths}};
  const std::vector<double>& known =
      known_->get(key, [&] { return means_of(g, size, rows, work); });
  costs.layer_s.insert(costs.layer_s.end(), known.begin(), known.end() - 2);
  const double embedding_s = known.end()[-2], head_s = known.back();
  const auto head_at = [&](StagePlace place) {
    return cost::holds_lm_head(place, batch_.memory) ? head_s : 0;
  };
  const double first_s = has_kernels_[g] ? prices_[g]->host_s(size, rows) + embedding_s : 0;
  costs.first_s.push_back(first_s + head_at(StagePlace::first));
  costs.last_s.push_back(head_at(StagePlace::last));
}

/// As cost::PricePart::micro_batch says.
std::vector<double> BatchCosts::means_of(std::size_t g, double size, double rows,
                                         const std::vector<cost::LayerWork>& work) const {
  const auto count = static_cast<double>(work.size());
  std::vector<double> means;
  for (const LayerShape& layer : batch_.model.layer_classes) {
    for (const std::int32_t bit : batch_.bitwidths) {
      double total = 0;
      if (cost::has_kernel(batch_, groups_[g].members.front(), bit)) {
        for (const cost::LayerWork& unit : work) total += prices_[g]->layer_s(layer, bit, unit);
      }
      means.push_back(total / count);
    }
  }
  // Without kernels no layer may be there, so nobody asks for its ends.
  const bool has_ends = has_kernels_[g];
  means.push_back(has_ends ? prices_[g]->embedding_s(rows) : 0);
  means.push_back(has_ends ? prices_[g]->head_s(size) / count : 0);
  return means;
}

void BatchCosts::add_links(PhaseCosts& costs, double rows) const {
  for (std::size_t from = 0; from < groups_.size(); ++from) {
    for (std::size_t to = 0; to < groups_.size(); ++to) {
      const auto& source = groups_[from].members;
      const auto& target = groups_[to].members;
      if (from == to && source.size() == 1) {
        costs.link_s.push_back(0);  // no second device of this group to talk to
        continue;
      }
      const Link link = from == to
                            ? slowest_step(batch_.cluster, source)
                            : cost::slowest_link(batch_.cluster, source.front(), target.front());
      costs.link_s.push_back(prices_[from]->hop_s(rows, link));
    }
  }
}

void BatchCosts::add_activations(PhaseCosts& costs, std::int64_t size, cost::Phase phase) const {
  const cost::MemoryQuery query = memory_query(batch_);
  const auto bytes = phase == cost::Phase::prefill ? cost::prefill_activation_bytes
                                                   : cost::decode_activation_bytes;
  costs.activation_bytes.clear();
  for (std::size_t row = 0; row < shardings_.size(); ++row) {
    for (const StagePlace place : kStagePlaces) {
      costs.activation_bytes.push_back(shardings_[row].degree *
                                       bytes(shards_[row], batch_.workload, size, place, query));
    }
  }
}

}  // namespace tessera::solver
