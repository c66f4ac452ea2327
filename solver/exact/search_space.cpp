#include "search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/units.h"

namespace tessera::solver::exact {

SearchSpace::SearchSpace(const Instance& instance, const PlanRequest& request)
    : instance_(instance), order_(request.order) {
  cells_ = static_cast<std::size_t>(instance.num_classes) * instance.num_bits();
  positions_ = order_ ? order_->size() : instance.num_devices();
  if (instance.max_omega) {
    omega_limit_ = *instance.max_omega + std::fabs(*instance.max_omega) * kQualitySlack;
  }
  const Sizes sizes = list_sizes(request);
  merge_groups(sizes);
  for (const DeviceKind& kind : kinds_) {
    const auto row = instance.layer_bytes.begin() +
                     static_cast<std::ptrdiff_t>(instance.groups[kind.group].sharding * cells_);
    layer_bytes_.insert(layer_bytes_.end(), row, row + static_cast<std::ptrdiff_t>(cells_));
  }
  for (const auto& [prefill, decode] : sizes) pairs_.push_back(price(prefill, decode));
}

SearchSpace::Sizes SearchSpace::list_sizes(const PlanRequest& request) {
  const auto useful = useful_micro_batch_sizes(instance_);
  std::vector<std::int64_t> decodes = useful;
  if (request.decode_micro_batch_size) {
    decodes = {*request.decode_micro_batch_size};
  } else if (instance_.objective == Objective::paper) {
    decodes = {ceil_div(instance_.batch_size, static_cast<std::int64_t>(positions_))};
    notes_.push_back(fmt::format(
        "objective 'paper' prices one decode micro-batch as a single step, so the decode "
        "micro-batch size is ceil(B / N) = {}, as published, not searched",
        decodes.front()));
  } else if (request.prefill_micro_batch_size) {
    // The smallest size of its count may lie below the prefill size that was asked for.
    decodes.push_back(*request.prefill_micro_batch_size);
    std::sort(decodes.begin(), decodes.end());
    decodes.erase(std::unique(decodes.begin(), decodes.end()), decodes.end());
  }
  Sizes sizes;
  for (const std::int64_t decode : decodes) {
    if (request.prefill_micro_batch_size) {
      const std::int64_t prefill = *request.prefill_micro_batch_size;
      if (prefill <= decode || request.decode_micro_batch_size) sizes.emplace_back(prefill, decode);
      continue;
    }
    for (const std::int64_t prefill : useful) {
      if (prefill <= decode) sizes.emplace_back(prefill, decode);
    }
  }
  return sizes;
}

bool SearchSpace::same_costs(const PhaseCosts& costs, std::size_t a, std::size_t b) const {
  const auto at = [&](std::size_t g) {
    return costs.layer_s.begin() + static_cast<std::ptrdiff_t>(g * cells_);
  };
  return std::equal(at(a), at(a + 1), at(b)) && costs.first_s[a] == costs.first_s[b] &&
         costs.last_s[a] == costs.last_s[b];
}

void SearchSpace::merge_groups(const Sizes& sizes) {
  const std::size_t bits = instance_.num_bits();
  const auto same = [&](std::size_t a, std::size_t b) {
    if (instance_.groups[a].usable_bytes != instance_.groups[b].usable_bytes) return false;
    if (instance_.groups[a].sharding != instance_.groups[b].sharding) return false;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      if (instance_.allowed_at(a, bit) != instance_.allowed_at(b, bit)) return false;
    }
    return std::all_of(sizes.begin(), sizes.end(), [&](const auto& pair) {
      return same_costs(instance_.prefill(pair.first), a, b) &&
             same_costs(instance_.decode(pair.second), a, b);
    });
  };
  for (std::size_t g = 0; g < instance_.groups.size(); ++g) {
    std::size_t k = 0;
    while (k < kinds_.size() && !same(kinds_[k].group, g)) ++k;
    if (k == kinds_.size()) kinds_.push_back({g, {}, 0});
    kinds_[k].members.push_back(g);
    kind_of_.push_back(k);
    if (!order_) kinds_[k].count += instance_.groups[g].count;
  }
  if (!order_) return;
  for (const std::size_t g : *order_) kinds_[kind_of_[g]].count += 1;
}

Pair SearchSpace::price(std::int64_t prefill_size, std::int64_t decode_size) const {
  const PhaseCosts& prefill = instance_.prefill(prefill_size);
  const PhaseCosts& decode = instance_.decode(decode_size);
  Pair pair;
  pair.prefill_size = prefill_size;
  pair.decode_size = decode_size;
  pair.coefficients =
      objective_coefficients(instance_, instance_.objective, prefill_size, decode_size);
  for (const DeviceKind& kind : kinds_) {
    const std::size_t g = kind.group;
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      pair.prefill_s.push_back(prefill.layer_s[g * cells_ + cell]);
      pair.decode_s.push_back(decode.layer_s[g * cells_ + cell]);
    }
    pair.prefill_end_s.emplace_back();
    pair.decode_end_s.emplace_back();
    pair.room_bytes.emplace_back();
    for (const StagePlace place : kStagePlaces) {
      const auto ends = [&](const PhaseCosts& costs) {
        return (is_first(place) ? costs.first_s[g] : 0) + (is_last(place) ? costs.last_s[g] : 0);
      };
      pair.prefill_end_s.back()[place] = ends(prefill);
      pair.decode_end_s.back()[place] = ends(decode);
      pair.room_bytes.back()[place] = instance_.groups[g].usable_bytes * (1 + kMemorySlack) -
                                      instance_.fixed_bytes(g, place, prefill, decode);
    }
  }
  pair.prefill_link_s = &prefill.link_s;
  pair.decode_link_s = &decode.link_s;
  pair.least_prefill_max_s = least_stage_max(pair.prefill_s);
  pair.least_decode_max_s = least_stage_max(pair.decode_s);
  pair.slowest_prefill_link_s = slowest_link(prefill);
  pair.slowest_decode_link_s = slowest_link(decode);
  if (order_) {
    pair.least_prefill_max_s = std::max(pair.least_prefill_max_s, pair.slowest_prefill_link_s);
    pair.least_decode_max_s = std::max(pair.least_decode_max_s, pair.slowest_decode_link_s);
  }
  return pair;
}

double SearchSpace::slowest_link(const PhaseCosts& costs) const {
  double slowest = 0;
  for (std::size_t k = 1; order_ && k < order_->size(); ++k) {
    slowest = std::max(slowest, instance_.link_s(costs, (*order_)[k - 1], (*order_)[k]));
  }
  if (order_) return slowest;
  for (std::size_t from = 0; from < instance_.groups.size(); ++from) {
    for (std::size_t to = 0; to < instance_.groups.size(); ++to) {
      if (from == to && instance_.groups[from].count < 2) continue;
      slowest = std::max(slowest, instance_.link_s(costs, from, to));
    }
  }
  return slowest;
}

// If every device ran its fastest layers all the time: layers / (sum of devices / seconds a layer).
double SearchSpace::least_stage_max(const std::vector<double>& layer_s) const {
  double rate = 0;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    double least = kInfinity;
    for (std::size_t cell = 0; cell < cells_; ++cell) {
      if (allowed(k, cell)) least = std::min(least, layer_s[k * cells_ + cell]);
    }
    if (least == 0) return 0;
    rate += kinds_[k].count / least;
  }
  return rate > 0 ? static_cast<double>(num_layers()) / rate * (1 - 1e-12) : 0;
}

}  // namespace tessera::solver::exact
