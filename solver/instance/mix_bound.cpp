#include "tessera/solver/instance/mix_bound.h"

#include <algorithm>
#include <cmath>

#include "tessera/core/units.h"
#include "tessera/solver/instance/numbers.h"

namespace tessera::solver {
namespace {

constexpr double kSafety = 1 - 1e-9;  // rounding of sums
constexpr int kSteps = 24;            // of a bisection; any multiplier gives a bound

void lower(std::vector<double>& to, const std::vector<double>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::min(to[i], from[i]);
}

}  // namespace

MixBound::MixBound(const Instance& types, const Instance* one)
    : types_(types), bits_(types.num_bits()), max_omega_(kInfinity), bytes_all_(types.layer_bytes) {
  if (types.max_omega) {
    max_omega_ = *types.max_omega + std::fabs(*types.max_omega) * kQualitySlack;
  }
  add_layer_types();
  bytes_each_.assign(bytes_all_.size(), 0);
  const auto others = static_cast<double>(types.batch_size - 1);
  for (std::size_t i = 0; one != nullptr && others > 0 && i < bytes_all_.size(); ++i) {
    bytes_each_[i] = (bytes_all_[i] - one->layer_bytes[i]) / others;
  }
  if (!types.monotone_costs) add_all_sizes();
}

void MixBound::add_layer_types() {
  for (std::size_t i = 0; i < types_.num_layers(); ++i) {
    const auto row = types_.omega.begin() + static_cast<std::ptrdiff_t>(i * bits_);
    const std::vector<double> omega(row, row + static_cast<std::ptrdiff_t>(bits_));
    const auto known =
        std::find_if(layer_types_.begin(), layer_types_.end(), [&](const LayerType& type) {
          return type.cls == types_.layer_class[i] && type.omega == omega;
        });
    if (known != layer_types_.end()) {
      known->count += 1;
    } else {
      layer_types_.push_back({types_.layer_class[i], 1, omega});
      omega_.insert(omega_.end(), omega.begin(), omega.end());
    }
  }
}

MixBound::Times MixBound::times_of(const PhaseCosts& costs) const {
  Times times{{}, costs.first_s, costs.last_s, {}};
  for (std::size_t g = 0; g < types_.groups.size(); ++g) {
    for (const LayerType& type : layer_types_) {
      for (std::size_t bit = 0; bit < bits_; ++bit) {
        times.layer_s.push_back(types_.allowed_at(g, bit) ? types_.layer_s(costs, g, type.cls, bit)
                                                          : kInfinity);
      }
    }
    const auto end = times.layer_s.end();
    times.model_s.push_back(
        sum({end - static_cast<std::ptrdiff_t>(layer_types_.size() * bits_), end}));
  }
  return times;
}

// Where costs may fall with the size, a size has the least of its own and of all larger ones.
void MixBound::add_all_sizes() {
  for (std::int64_t size = types_.batch_size; size >= 1; --size) {
    for (const bool prefill : {true, false}) {
      BySize& known = prefill ? prefill_ : decode_;
      Times times = times_of(prefill ? types_.prefill(size) : types_.decode(size));
      const auto larger = known.find(size + 1);
      if (larger != known.end()) {
        lower(times.layer_s, larger->second.layer_s);
        lower(times.first_s, larger->second.first_s);
        lower(times.last_s, larger->second.last_s);
        lower(times.model_s, larger->second.model_s);
      }
      known.emplace(size, std::move(times));
    }
  }
}

const MixBound::Times& MixBound::prefill_at(std::int64_t size) const {
  const auto known = prefill_.find(size);
  return known != prefill_.end()
             ? known->second
             : prefill_.emplace(size, times_of(types_.prefill(size))).first->second;
}

const MixBound::Times& MixBound::decode_at(std::int64_t size) const {
  const auto known = decode_.find(size);
  return known != decode_.end()
             ? known->second
             : decode_.emplace(size, times_of(types_.decode(size))).first->second;
}

/// Over all layers, each at its least bitwidth.
double MixBound::sum(const std::vector<double>& per_layer) const {
  double total = 0;
  for (std::size_t k = 0; k < layer_types_.size(); ++k) {
    const auto row = per_layer.begin() + static_cast<std::ptrdiff_t>(k * bits_);
    total +=
        layer_types_[k].count * *std::min_element(row, row + static_cast<std::ptrdiff_t>(bits_));
  }
  return total;
}

/// Least sum of cost[layer type][bit] over all layers whose usage sums to at most the limit: a
/// bound by weak duality, sum_i min_b (cost + p usage) - p limit, at the best price p that
/// bisection finds.
double MixBound::least_within(const std::vector<double>& cost, const std::vector<double>& usage,
                              double limit) const {
  double used = 0, best = -kInfinity;
  const auto dual = [&](double price) {
    double total = 0;
    used = 0;
    for (std::size_t k = 0; k < layer_types_.size(); ++k) {
      double least = kInfinity, at = 0;
      for (std::size_t bit = 0; bit < bits_; ++bit) {
        if (cost[k * bits_ + bit] == kInfinity) continue;  // its usage may be infinite too
        const double paid = cost[k * bits_ + bit] + price * usage[k * bits_ + bit];
        if (paid >= least) continue;
        least = paid;
        at = usage[k * bits_ + bit];
      }
      total += layer_types_[k].count * least;
      used += layer_types_[k].count * at;
    }
    best = std::max(best, total - (price > 0 ? price * limit : 0));
  };
  dual(0);
  if (used <= limit || best == kInfinity) return best;
  double low = 0, high = std::max(best, 1e-300) / std::max(std::fabs(limit), 1e-12);
  for (int i = 0; i < 2 * kSteps; ++i) {  // upwards until the limit holds
    dual(high);
    if (used <= limit) break;
    low = high;
    high *= 2;
  }
  for (int i = 0; i < kSteps; ++i) {
    const double middle = (low + high) / 2;
    dual(middle);
    (used > limit ? low : high) = middle;
  }
  return best;
}

/// The least that a layer holds on any of the devices, [layer type][bit].
std::vector<double> MixBound::layer_bytes(const std::vector<std::int64_t>& counts,
                                          std::int64_t share) const {
  const auto classes = static_cast<std::size_t>(types_.num_classes);
  const auto fewer = static_cast<double>(types_.batch_size - share);
  std::vector<double> bytes(layer_types_.size() * bits_, kInfinity);
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] == 0) continue;
    for (std::size_t k = 0; k < layer_types_.size(); ++k) {
      for (std::size_t bit = 0; bit < bits_; ++bit) {
        if (!types_.allowed_at(g, bit)) continue;
        const std::size_t i =
            (types_.groups[g].sharding * classes + static_cast<std::size_t>(layer_types_[k].cls)) *
                bits_ +
            bit;
        double& least = bytes[k * bits_ + bit];
        least = std::min(least, bytes_all_[i] - fewer * bytes_each_[i]);
      }
    }
  }
  return bytes;
}

double MixBound::embedding_bytes(const std::vector<std::int64_t>& counts) const {
  double first = kInfinity, last = kInfinity, only = kInfinity;
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    if (counts[g] == 0) continue;
    devices += counts[g];
    first = std::min(first, types_.embedding_bytes_at(g, StagePlace::first));
    last = std::min(last, types_.embedding_bytes_at(g, StagePlace::last));
    only = std::min(only, types_.embedding_bytes_at(g, StagePlace::only));
  }
  if (devices == 1) return only;
  return types_.least_stages() == 1 ? std::min(only, first + last) : first + last;
}

MixBound::Fluid MixBound::fluid(const Times& times, const std::vector<std::int64_t>& counts) const {
  const std::size_t row = layer_types_.size() * bits_;
  Fluid fluid{std::vector<double>(row, kInfinity), std::vector<double>(row, kInfinity)};
  double rate = 0, first = kInfinity, last = kInfinity, weighted_first = kInfinity,
         weighted_last = kInfinity;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    const double model_s = times.model_s[g];
    if (counts[g] == 0 || model_s == kInfinity) continue;
    const double weight = 1 / std::max(model_s, 1e-300);
    rate += static_cast<double>(counts[g]) * weight;
    for (std::size_t i = 0; i < row; ++i) {
      const double layer_s = times.layer_s[g * row + i];
      fluid.sum_s[i] = std::min(fluid.sum_s[i], layer_s);
      fluid.max_s[i] = std::min(fluid.max_s[i], weight * layer_s);
    }
    first = std::min(first, times.first_s[g]);
    last = std::min(last, times.last_s[g]);
    weighted_first = std::min(weighted_first, weight * times.first_s[g]);
    weighted_last = std::min(weighted_last, weight * times.last_s[g]);
  }
  if (rate == 0) return fluid;
  const auto layers = static_cast<double>(types_.num_layers());
  for (std::size_t i = 0; i < row; ++i) {
    fluid.sum_s[i] += (first + last) / layers;
    fluid.max_s[i] = (fluid.max_s[i] + (weighted_first + weighted_last) / layers) / rate;
  }
  return fluid;
}

/// What a layer adds to the latency at least, [layer type][bit], whatever the micro-batch sizes.
std::vector<double> MixBound::least_seconds(const std::vector<std::int64_t>& counts,
                                            std::int64_t share) const {
  const std::size_t row = layer_types_.size() * bits_;
  const double later_tokens = std::max(0.0, types_.output_tokens - 1);
  std::vector<double> prefill(row, kInfinity), decode(row, kInfinity), cost(row);
  std::int64_t end = 0;  // of the sizes that give as many micro-batches
  for (std::int64_t size = 1; size <= share; size = end) {
    const std::int64_t number = ceil_div(share, size);
    end = number > 1 ? ceil_div(share, number - 1) : share + 1;
    const auto micro_batches = static_cast<double>(number);
    const double units = micro_batches * static_cast<double>(types_.num_chunks);
    Fluid stages = fluid(prefill_at(size), counts);
    for (std::size_t i = 0; i < row; ++i) {
      const bool runs = stages.sum_s[i] < kInfinity;
      cost[i] = runs ? (units - 1) * stages.max_s[i] + stages.sum_s[i] : kInfinity;
    }
    lower(prefill, cost);
    stages = fluid(decode_at(size), counts);
    for (double& seconds : stages.max_s) seconds *= micro_batches;
    lower(decode, sum(stages.max_s) > sum(stages.sum_s) ? stages.max_s : stages.sum_s);
  }
  for (std::size_t i = 0; i < row; ++i) {
    cost[i] = prefill[i] < kInfinity ? prefill[i] + later_tokens * decode[i] : kInfinity;
  }
  return cost;
}

double MixBound::bound(const std::vector<std::int64_t>& counts, std::int64_t share,
                       double theta) const {
  double room = 0;
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    room += static_cast<double>(counts[g]) * types_.groups[g].usable_bytes * (1 + kMemorySlack);
    devices += counts[g];
  }
  if (devices == 0) return kInfinity;
  room -= embedding_bytes(counts);
  const std::vector<double> bytes = layer_bytes(counts, share);
  if (least_within(bytes, omega_, max_omega_) * kSafety > room) return kInfinity;
  std::vector<double> cost = least_seconds(counts, share);
  for (std::size_t i = 0; i < cost.size(); ++i) cost[i] += theta * omega_[i];
  double least = least_within(cost, bytes, room);
  if (max_omega_ < kInfinity) least = std::max(least, least_within(cost, omega_, max_omega_));
  return least > 0 ? least * kSafety : least / kSafety;
}

double MixBound::latency_s(const std::vector<std::int64_t>& counts) const {
  return bound(counts, types_.batch_size, 0);
}

double MixBound::objective(const std::vector<std::int64_t>& counts, std::int64_t share) const {
  return bound(counts, share, types_.theta);
}

}  // namespace tessera::solver
