#include "tessera/core/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/core/error.h"
#include "tessera/core/model_shape.h"
#include "tessera/core/units.h"

namespace tessera {
namespace {

/// Two independent factors as one.
double together(double spread, double other) {
  return std::exp(std::hypot(std::log(spread), std::log(other)));
}

/// What the layers share the loss of a bitwidth by; the sum is 1.
std::vector<double> shares(const QualityLevels& levels, const Indicator& given) {
  std::vector<double> parts(given.num_layers, 1);
  if (given.kind == "constant") {
    parts.back() = levels.last_layer;
  } else {
    const std::int32_t reference = given.has(4) ? 4 : given.bitwidths.front();
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = given.at(i, reference);
  }
  double total = 0;
  for (const double part : parts) total += part;
  for (double& part : parts) {
    part = total > 0 ? part / total : 1 / static_cast<double>(parts.size());
  }
  return parts;
}

/// Nats of a loss that ran the model.
double own_nats(const QualityLevels& levels, const Indicator& own, std::size_t layer,
                std::int32_t bitwidth) {
  const double omega = std::max(0.0, own.at(layer, bitwidth));
  return own.kind == "divergence" ? omega * levels.rise_per_kl : omega;
}

struct Ends {
  double low, high;
};

/// Beyond it a model says nothing; its exponential stays finite.
constexpr double kMostNats = 20;

/// Nats of a quantity whose unit adds a spread of its own.
Ends ends(const QualityLevels& levels, double weights, double kv, double unit_spread) {
  const double factor = together(levels.spread, unit_spread);
  const double kv_factor = together(levels.kv_spread, unit_spread);
  return {std::min(weights / factor + kv / kv_factor, kMostNats),
          std::min(weights * factor + kv * kv_factor, kMostNats)};
}

std::string percent(double ratio) {
  const double value = 100 * ratio;
  return fmt::format("{:.{}f}", value, std::fabs(value) < 10 ? 1 : 0);
}

/// What was probably meant by a percentage where a ratio belongs.
[[noreturn]] void refuse_ratio(const std::string& path, double value, const char* range) {
  refuse(ErrorCode::out_of_range, path, "{} is outside {}; it is a ratio: {} % is {}",
         format_number(value), range, format_number(std::fabs(value)), format_number(value / 100));
}

}  // namespace

std::vector<std::string_view> quantisation_methods() { return {"gptq", "rtn"}; }

double QualityLevels::at(std::int32_t bitwidth) const {
  const auto it = std::find(bitwidths.begin(), bitwidths.end(), bitwidth);
  if (it == bitwidths.end()) {
    refuse(ErrorCode::out_of_range, "quality", "nothing is known of {} bits", bitwidth);
  }
  return nats[static_cast<std::size_t>(it - bitwidths.begin())];
}

double QualityLevels::kv_at(std::int32_t bitwidth) const {
  if (bitwidth >= kMaxKvBitwidth || kv_nats.empty()) return 0;
  return kv_nats[static_cast<std::size_t>(bitwidth - kMinKvBitwidth)];
}

bool is_measured_loss(const Indicator& indicator) {
  return indicator.kind == "loss" || indicator.kind == "divergence";
}

Indicator losses_by_layer(const QualityLevels& levels, const Indicator& given) {
  Indicator losses;
  losses.kind = kQualityIndicator;
  losses.variant = given.kind == "constant" ? "" : given.kind;
  losses.bitwidths = levels.bitwidths;
  losses.num_layers = given.num_layers;
  losses.provenance = Provenance::fitted;
  losses.source = levels.source;
  const bool is_own = is_measured_loss(given);
  const std::vector<double> parts = is_own ? std::vector<double>{} : shares(levels, given);
  const std::size_t num_bits = levels.bitwidths.size();
  losses.omega.resize(losses.num_layers * num_bits);
  for (std::size_t layer = 0; layer < losses.num_layers; ++layer) {
    double least = 0;
    for (std::size_t b = num_bits; b-- > 0;) {
      const double nats = is_own ? own_nats(levels, given, layer, levels.bitwidths[b])
                                 : parts[layer] * levels.nats[b];
      least = std::max(least, nats);
      losses.omega[layer * num_bits + b] = least;
    }
  }
  return losses;
}

QualityLevels measured_levels(const QualityLevels& published, const Indicator& own, double spread) {
  QualityLevels levels = published;
  levels.grade = QualityGrade::measured;
  levels.spread = spread;
  levels.source = "single layers of this model, measured on a text (" + own.kind + ")";
  levels.bitwidths = own.bitwidths;
  levels.nats.assign(own.bitwidths.size(), 0);
  double least = 0;
  for (std::size_t b = own.bitwidths.size(); b-- > 0;) {
    double sum = 0;
    for (std::size_t layer = 0; layer < own.num_layers; ++layer) {
      sum += own_nats(published, own, layer, own.bitwidths[b]);
    }
    least = std::max(least, sum);
    levels.nats[b] = least;
  }
  return levels;
}

Quality quality_of(const QualityLevels& levels, double weights_nats, double kv_nats) {
  Quality quality;
  quality.grade = levels.grade;
  quality.source = levels.source;
  if (kv_nats > 0) quality.source += "; of the KV cache, of all families";
  const double mid = std::min(weights_nats + kv_nats, kMostNats);
  if (mid <= 0) return quality;
  const Ends rise = ends(levels, weights_nats, kv_nats, 1);
  quality.perplexity_increase = {std::expm1(rise.low) - kFinestQuality, std::expm1(mid),
                                 std::max(std::expm1(rise.high), kFinestQuality)};
  const Ends kl = ends(levels, weights_nats, kv_nats, levels.rise_per_kl_spread);
  quality.kl_nats = {kl.low / levels.rise_per_kl, mid / levels.rise_per_kl,
                     kl.high / levels.rise_per_kl};
  const Ends cost = ends(levels, weights_nats, kv_nats, levels.recovery_per_rise_spread);
  const double rate = levels.recovery_per_rise;
  quality.accuracy_recovery = {std::min(std::exp(-rate * cost.high), 1 - kFinestQuality),
                               std::exp(-rate * mid), std::exp(-rate * cost.low) + kFinestQuality};
  return quality;
}

double most_nats(QualityLevels& levels, const QualityBound& bound) {
  double most = kHuge;
  levels.kv_weight = bound.at == BoundAt::high ? 0 : 1;
  const auto keep = [&](double nats, bool is_fine, double unit_spread) {
    if (bound.at == BoundAt::mid) {
      most = std::min(most, nats);
      return;
    }
    const double factor = together(levels.spread, unit_spread);
    most = std::min(most, is_fine ? 0 : nats / factor);
    levels.kv_weight = std::max(levels.kv_weight, together(levels.kv_spread, unit_spread) / factor);
  };
  if (bound.max_perplexity_increase) {
    const double increase = *bound.max_perplexity_increase;
    keep(std::log1p(increase), increase < kFinestQuality, 1);
  }
  if (bound.min_accuracy_recovery) {
    const double recovery = *bound.min_accuracy_recovery;
    keep(-std::log(recovery) / levels.recovery_per_rise, recovery > 1 - kFinestQuality,
         levels.recovery_per_rise_spread);
  }
  return most;
}

std::string in_words(const Quality& quality) {
  const Band& ppl = quality.perplexity_increase;
  const Band& accuracy = quality.accuracy_recovery;
  if (quality.kl_nats.mid <= 0) return "as at 16 bits";
  return fmt::format("perplexity {:+.1f} % ({} to {}), accuracy {} % ({} to {}) of 16 bits",
                     100 * ppl.mid, percent(ppl.low), percent(ppl.high), percent(accuracy.mid),
                     percent(accuracy.low), percent(std::min(accuracy.high, 1 + kFinestQuality)));
}

void Fields<Band>::check(const Band& band, const FieldPath& path) {
  if (band.low <= band.mid && band.mid <= band.high) return;
  refuse(path("mid"), "{} is not between low {} and high {}", band.mid, band.low, band.high);
}

void Fields<QualityBound>::check(const B& bound, const FieldPath& path) {
  if (bound.max_perplexity_increase) {
    const double value = *bound.max_perplexity_increase;
    if (value < 0) {
      refuse(ErrorCode::out_of_range, path("max_perplexity_increase"),
             "{} is negative; no plan is promised to be better than the model at 16 bits: give a "
             "ratio in [0, 1), 0.01 is 1 %",
             format_number(value));
    }
    if (value >= 1) refuse_ratio(path("max_perplexity_increase"), value, "[0, 1)");
  }
  if (bound.min_accuracy_recovery) {
    const double value = *bound.min_accuracy_recovery;
    if (value > 1) refuse_ratio(path("min_accuracy_recovery"), value, "(0, 1]");
    if (value <= 0) {
      refuse(ErrorCode::out_of_range, path("min_accuracy_recovery"),
             "{} is not positive; give a ratio in (0, 1], 0.99 is 99 %", format_number(value));
    }
  }
}

void Fields<QualityLevels>::check(const L& levels, const FieldPath& path) {
  if (levels.bitwidths.size() != levels.nats.size()) {
    refuse(path("nats"), "{} losses of {} bitwidths", levels.nats.size(), levels.bitwidths.size());
  }
  const std::size_t num_kv = kMaxKvBitwidth - kMinKvBitwidth + 1;
  if (!levels.kv_nats.empty() && levels.kv_nats.size() != num_kv) {
    refuse(path("kv_nats"), "{} losses; {} belong here, or none", levels.kv_nats.size(), num_kv);
  }
}

}  // namespace tessera
