#include "tessera/solver/instance/mix_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/core/units.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

constexpr double kSafety = 1 - 1e-9;  // rounding of sums
constexpr int kSteps = 24;            // of a bisection; any multiplier gives a bound

}  // namespace

MixBound::MixBound(const Instance& types)
    : bits_(types.num_bits()), output_tokens_(types.output_tokens) {
  if (types.max_omega) {
    floor_ = true;
    max_omega_ = *types.max_omega + std::fabs(*types.max_omega) * kQualitySlack;
  }
  add_layer_types(types);
  for (const DeviceGroup& group : types.groups) usable_bytes_.push_back(group.usable_bytes);
  embedding_bytes_[0] = types.embedding_bytes[index_of(StagePlace::first)] +
                        types.embedding_bytes[index_of(StagePlace::last)];
  embedding_bytes_[1] = types.embedding_bytes[index_of(StagePlace::only)];
  layer_bytes_ = least_layer_bytes(types);
  for (std::int64_t size = 1; size <= types.batch_size; ++size) {
    const auto count = static_cast<double>(ceil_div(types.batch_size, size));
    add_size(types, types.prefill(size), count * static_cast<double>(types.num_chunks), prefill_);
    add_size(types, types.decode(size), count, decode_);
  }
  for (std::vector<Phase>* phases : {&prefill_, &decode_}) {
    for (Phase& phase : *phases) {
      const std::size_t row = layer_types_.size() * bits_;
      for (std::size_t g = 0; g < usable_bytes_.size(); ++g) {
        const auto begin = phase.layer_s.begin() + static_cast<std::ptrdiff_t>(g * row);
        phase.model_s.push_back(within_floor({begin, begin + static_cast<std::ptrdiff_t>(row)}));
      }
    }
  }
}

void MixBound::add_layer_types(const Instance& types) {
  for (std::size_t i = 0; i < types.num_layers(); ++i) {
    const auto row = types.omega.begin() + static_cast<std::ptrdiff_t>(i * bits_);
    const std::vector<double> omega(row, row + static_cast<std::ptrdiff_t>(bits_));
    const auto known =
        std::find_if(layer_types_.begin(), layer_types_.end(), [&](const LayerType& type) {
          return type.cls == types.layer_class[i] && type.omega == omega;
        });
    if (known != layer_types_.end()) {
      known->count += 1;
    } else {
      layer_types_.push_back({types.layer_class[i], 1, omega});
    }
  }
}

void MixBound::add_size(const Instance& types, const PhaseCosts& costs, double units,
                        std::vector<Phase>& phases) const {
  Phase size{units, {}, costs.first_s, costs.last_s, {}};
  for (std::size_t g = 0; g < types.groups.size(); ++g) {
    for (const LayerType& type : layer_types_) {
      for (std::size_t bit = 0; bit < bits_; ++bit) {
        size.layer_s.push_back(types.allowed_at(g, bit) ? types.layer_s(costs, g, type.cls, bit)
                                                        : kInfinity);
      }
    }
  }
  if (phases.empty() || phases.back().units != units) {
    phases.push_back(std::move(size));
    return;
  }
  const auto lower = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::min(to[i], from[i]);
  };
  lower(phases.back().layer_s, size.layer_s);
  lower(phases.back().first_s, size.first_s);
  lower(phases.back().last_s, size.last_s);
}

/// Least sum of cost[layer type][bit] over all layers with omega within the floor: a bound by weak
/// duality, sum_i min_b (cost + p omega) - p max_omega, at the best price p that bisection finds.
double MixBound::within_floor(const std::vector<double>& cost) const {
  double omega = 0, best = -kInfinity;
  const auto dual = [&](double price) {
    double total = 0;
    omega = 0;
    for (std::size_t k = 0; k < layer_types_.size(); ++k) {
      double least = kInfinity, at = 0;
      for (std::size_t bit = 0; bit < bits_; ++bit) {
        const double paid = cost[k * bits_ + bit] + price * layer_types_[k].omega[bit];
        if (paid >= least) continue;
        least = paid;
        at = layer_types_[k].omega[bit];
      }
      total += layer_types_[k].count * least;
      omega += layer_types_[k].count * at;
    }
    best = std::max(best, total - price * max_omega_);
  };
  dual(0);
  if (!floor_ || omega <= max_omega_ || best == kInfinity) return best;
  double low = 0, high = std::max(best, 1e-300) / std::max(std::fabs(max_omega_), 1e-12);
  for (int i = 0; i < 2 * kSteps; ++i) {  // upwards until the floor holds
    dual(high);
    if (omega <= max_omega_) break;
    low = high;
    high *= 2;
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    dual(middle);
    (omega > max_omega_ ? low : high) = middle;
  }
  return best;
}

double MixBound::least_layer_bytes(const Instance& types) const {
  std::vector<double> bytes;
  for (const LayerType& type : layer_types_) {
    for (std::size_t bit = 0; bit < bits_; ++bit) {
      bool runs = false;
      for (std::size_t g = 0; g < types.groups.size(); ++g) runs = runs || types.allowed_at(g, bit);
      bytes.push_back(runs ? types.layer_bytes_at(0, type.cls, bit) : kInfinity);
    }
  }
  return within_floor(bytes);
}

MixBound::Stage MixBound::fluid(const Phase& phase, const std::vector<std::int64_t>& counts) const {
  const std::size_t row = layer_types_.size() * bits_;
  std::vector<double> least(row, kInfinity), weighted(row, kInfinity);
  double rate = 0, first = kInfinity, last = kInfinity, weighted_first = kInfinity,
         weighted_last = kInfinity;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const double model_s = phase.model_s[g];
    if (counts[g] == 0 || model_s == kInfinity) continue;
    const double weight = 1 / std::max(model_s, 1e-300);
    rate += static_cast<double>(counts[g]) * weight;
    for (std::size_t i = 0; i < row; ++i) {
      least[i] = std::min(least[i], phase.layer_s[g * row + i]);
      weighted[i] = std::min(weighted[i], weight * phase.layer_s[g * row + i]);
    }
    first = std::min(first, phase.first_s[g]);
    last = std::min(last, phase.last_s[g]);
    weighted_first = std::min(weighted_first, weight * phase.first_s[g]);
    weighted_last = std::min(weighted_last, weight * phase.last_s[g]);
  }
  if (rate == 0) return {kInfinity, kInfinity};
  return {(within_floor(weighted) + weighted_first + weighted_last) / rate,
          within_floor(least) + first + last};
}

double MixBound::latency_s(const std::vector<std::int64_t>& counts) const {
  double room = 0;
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    room += static_cast<double>(counts[g]) * usable_bytes_[g] * (1 + kMemorySlack);
    devices += counts[g];
  }
  if (devices == 0 || layer_bytes_ * kSafety + embedding_bytes_[devices == 1 ? 1 : 0] > room) {
    return kInfinity;
  }
  double prefill = kInfinity, decode = kInfinity;
  for (const Phase& phase : prefill_) {
    const Stage stage = fluid(phase, counts);
    prefill = std::min(prefill, (phase.units - 1) * stage.max_s + stage.sum_s);
  }
  for (const Phase& phase : decode_) {
    const Stage stage = fluid(phase, counts);
    decode = std::min(decode, std::max(phase.units * stage.max_s, stage.sum_s));
  }
  return (prefill + std::max(0.0, output_tokens_ - 1) * decode) * kSafety;
}

}  // namespace tessera::solver
