#include "tessera/solver/mix_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/core/units.h"

namespace tessera::solver {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSafety = 1 - 1e-9;  // rounding of sums

}  // namespace

MixBound::MixBound(const Instance& types) : output_tokens_(types.output_tokens) {
  const auto classes = static_cast<std::size_t>(types.num_classes);
  layers_of_class_.assign(classes, 0);
  for (const std::int32_t cls : types.layer_class) {
    layers_of_class_[static_cast<std::size_t>(cls)] += 1;
  }
  for (const DeviceGroup& group : types.groups) usable_bytes_.push_back(group.usable_bytes);
  embedding_bytes_[0] = types.embedding_bytes[StagePlace{true, false}.index()] +
                        types.embedding_bytes[StagePlace{false, true}.index()];
  embedding_bytes_[1] = types.embedding_bytes[StagePlace{true, true}.index()];
  layer_bytes_ = least_layer_bytes(types);
  const auto fastest = [&](const PhaseCosts& costs, double units) {
    Size size{units, {}};
    for (std::size_t g = 0; g < types.groups.size(); ++g) {
      for (std::size_t cls = 0; cls < classes; ++cls) {
        double least = kInfinity;
        for (std::size_t bit = 0; bit < types.num_bits(); ++bit) {
          if (!types.allowed_at(g, bit)) continue;
          least = std::min(least, types.layer_s(costs, g, static_cast<std::int32_t>(cls), bit));
        }
        size.layer_s.push_back(least);
      }
    }
    return size;
  };
  for (std::int64_t size = 1; size <= types.batch_size; ++size) {
    const auto count = static_cast<double>(ceil_div(types.batch_size, size));
    prefill_.push_back(fastest(types.prefill(size), count * static_cast<double>(types.num_chunks)));
    decode_.push_back(fastest(types.decode(size), count));
  }
}

/// max over prices p of sum_i min_b (bytes + p omega) - p * floor: weak duality; the maximum lies
/// where some layer changes its choice.
double MixBound::least_layer_bytes(const Instance& types) const {
  const std::size_t bits = types.num_bits();
  std::vector<bool> any(bits, false);
  for (std::size_t g = 0; g < types.groups.size(); ++g) {
    for (std::size_t bit = 0; bit < bits; ++bit) any[bit] = any[bit] || types.allowed_at(g, bit);
  }
  const auto dual = [&](double price) {
    double total = 0;
    for (std::size_t i = 0; i < types.num_layers(); ++i) {
      double least = kInfinity;
      for (std::size_t bit = 0; bit < bits; ++bit) {
        if (!any[bit]) continue;
        least = std::min(least, types.layer_bytes_at(types.layer_class[i], bit) +
                                    price * types.omega_at(i, bit));
      }
      total += least;
    }
    if (price == 0) return total;
    return total - price * (*types.max_omega + std::fabs(*types.max_omega) * kQualitySlack);
  };
  double best = dual(0);
  if (!types.max_omega) return best;
  for (std::size_t i = 0; i < types.num_layers(); ++i) {
    for (std::size_t a = 0; a < bits; ++a) {
      for (std::size_t b = a + 1; b < bits; ++b) {
        const double bytes = types.layer_bytes_at(types.layer_class[i], b) -
                             types.layer_bytes_at(types.layer_class[i], a);
        const double omega = types.omega_at(i, a) - types.omega_at(i, b);
        if (omega > 0 && bytes > 0) best = std::max(best, dual(bytes / omega));
      }
    }
  }
  return best;
}

MixBound::Stage MixBound::fluid(const Size& size, const std::vector<std::int64_t>& counts) const {
  const std::size_t classes = layers_of_class_.size();
  std::vector<double> model_s(counts.size(), 0);
  double rate = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    for (std::size_t cls = 0; cls < classes; ++cls) {
      model_s[g] += layers_of_class_[cls] * size.layer_s[g * classes + cls];
    }
    if (counts[g] > 0 && model_s[g] < kInfinity) {
      rate += static_cast<double>(counts[g]) / std::max(model_s[g], 1e-300);
    }
  }
  Stage stage;
  for (std::size_t cls = 0; cls < classes; ++cls) {
    double least = kInfinity, weighted = kInfinity;
    for (std::size_t g = 0; g < counts.size(); ++g) {
      if (counts[g] == 0 || model_s[g] == kInfinity) continue;
      const double layer = size.layer_s[g * classes + cls];
      least = std::min(least, layer);
      weighted = std::min(weighted, layer / std::max(model_s[g], 1e-300));
    }
    stage.sum_s += layers_of_class_[cls] * least;
    stage.max_s += layers_of_class_[cls] * weighted / rate;
  }
  return stage;
}

double MixBound::latency_s(const std::vector<std::int64_t>& counts) const {
  double room = 0;
  std::int64_t devices = 0;
  for (std::size_t g = 0; g < counts.size(); ++g) {
    room += static_cast<double>(counts[g]) * usable_bytes_[g] * (1 + kMemorySlack);
    devices += counts[g];
  }
  if (devices == 0 || layer_bytes_ * kSafety + embedding_bytes_[devices == 1] > room) {
    return kInfinity;
  }
  double prefill = kInfinity, decode = kInfinity;
  for (const Size& size : prefill_) {
    const Stage stage = fluid(size, counts);
    prefill = std::min(prefill, (size.units - 1) * stage.max_s + stage.sum_s);
  }
  for (const Size& size : decode_) {
    const Stage stage = fluid(size, counts);
    decode = std::min(decode, std::max(size.units * stage.max_s, stage.sum_s));
  }
  return (prefill + std::max(0.0, output_tokens_ - 1) * decode) * kSafety;
}

}  // namespace tessera::solver
