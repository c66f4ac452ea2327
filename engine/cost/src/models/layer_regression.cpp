#include "layer_regression.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "../counts.h"
#include "../nnls.h"
#include "../work.h"
#include "tessera/core/error.h"
#include "tessera/core/json.h"
#include "tessera/core/text.h"

namespace tessera::cost::models {
namespace {

// Attention in PyTorch without fused kernels, which is what the sources of 2023 ran: the share of
// the bandwidth is what one more sequence after 512 tokens costs a step of FP16 decode on T4
// (14 %) and V100 (13 %), so a fit to such rows estimates it anew (shows_attention); the share of
// the peak rate is assumed.
constexpr double kAttentionFlopRatio = 0.3;
constexpr double kAttentionMemoryRatio = 0.14;
constexpr double kOverheadS = 150e-6;  // about 30 kernels of 5 us

// Standard deviations, relative unless said otherwise.
constexpr double kNoise = 0.04;  // of a measurement
constexpr double kLoose = 100;   // weights and products: what kernels reach is not known
constexpr double kAttentionPrior = 0.5;
constexpr double kHiddenProductsPrior = 0.5;  // of 16-bit decode, about the peak rate
constexpr double kOverheadPrior = 1;
constexpr double kDonorPrior = 0.5;  // of a term of the donor, and a share of the whole:
constexpr double kDonorShare = 0.05;
constexpr double kExponentPrior = 0.15;  // absolute
constexpr double kDonorExponentPrior = 0.05;

constexpr double kLeastExponent = 0.8, kMostExponent = 1.4, kExponentStep = 0.01;
constexpr Eigen::Index kTerms = 4;  // weights, products, attention, overhead
constexpr Eigen::Index kWeights = 0, kProducts = 1, kAttention = 2;

using Terms = Eigen::Vector4d;

struct Curve {
  double exponent = 1;
  double reference = 1;  // m at which products take FLOP / peak rate
  double largest = 1;    // m up to which the exponent holds
};

// m (m / reference)^(exponent - 1), continued along its tangent.
double bent(const Curve& curve, double m) {
  const double within = std::min(m, curve.largest);
  const double power = within * std::pow(within / curve.reference, curve.exponent - 1);
  return power + curve.exponent * power / within * (m - within);
}

bool is_attention(const LinearShape& linear) {
  static const std::vector<std::string> names = {"q_proj", "k_proj", "v_proj", "o_proj",
                                                 "out_proj"};
  return std::find(names.begin(), names.end(), linear.name) != names.end();
}

void check_part(const OpQuery& query) {
  if (query.name.empty() || query.name == "self_attn" || query.name == "ffn") return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: no part {} of a layer{}; leave it out for the whole layer", describe(query),
                  quote(query.name), did_you_mean(query.name, {"self_attn", "ffn"})),
      "name");
}

// Whether the part of a layer that the query names has the matrix.
bool has(const OpQuery& query, const LinearShape& linear) {
  return query.name.empty() || is_attention(linear) == (query.name == "self_attn");
}

double fp16_rate(const Device& device) {
  const auto rate = device.flop_per_s.find("fp16");
  if (rate != device.flop_per_s.end()) return rate->second;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: flop_per_s has no fp16, which attention needs", device.name),
              "flop_per_s");
}

// The features of a query in seconds at the data sheet's rates.
Terms features(const Device& device, const OpQuery& query, const Curve& curve) {
  check_query(query);
  check_part(query);
  const double rows = query.batch_size * query.tokens;
  double bytes = 0, active = 0;
  for (const LinearShape& linear : query.layer->linears) {
    if (!has(query, linear)) continue;
    const double copies = std::min(count(linear.num_copies), rows * count(linear.num_active));
    bytes += copies * count(linear.in_features * linear.out_features) * query.bitwidth / 8;
    active += count(linear.active_parameters());
  }
  const AttentionShape shape =
      query.name == "ffn" ? AttentionShape{} : attention_shape(*query.layer);
  const AttentionWork attention =
      attention_work(shape, 16, query.batch_size, query.tokens, query.context_tokens);
  const double flop_per_s = fp16_rate(device), bytes_per_s = device.memory_bytes_per_s;
  return {bytes / bytes_per_s, 2 * active * bent(curve, rows) / flop_per_s,
          std::max(attention.flop / (kAttentionFlopRatio * flop_per_s),
                   attention.bytes / (kAttentionMemoryRatio * bytes_per_s)),
          1};
}

// What no kernel can undercut, whatever it computes in.
double floor_s(const Device& device, const OpQuery& query) {
  const OpWork work = work_of(device, query);
  double fastest = 0;
  for (const auto& [dtype, rate] : device.flop_per_s) fastest = std::max(fastest, rate);
  return std::max(work.memory_s(), work.flop / fastest);
}

class LayerRegression final : public OpModel {
 public:
  LayerRegression(Device device, Curve curve, Terms terms)
      : device_(std::move(device)), curve_(curve), terms_(std::move(terms)) {}

  double seconds(const OpQuery& query) const override {
    const double fitted = terms_.dot(features(device_, query, curve_));
    // Half a layer has no bounds of its own; those of the whole would be above it.
    return query.name.empty() ? std::max(fitted, floor_s(device_, query)) : fitted;
  }

  Json coefficients() const override {
    return {{"weights", terms_(0)},
            {"products", terms_(1)},
            {"attention", terms_(2)},
            {"overhead_s", terms_(3)},
            {"exponent", curve_.exponent},
            {"reference_tokens", curve_.reference},
            {"largest_tokens", curve_.largest}};
  }

  const Curve& curve() const { return curve_; }
  const Terms& terms() const { return terms_; }

 private:
  Device device_;
  Curve curve_;
  Terms terms_;
};

// What is believed before the data: a normal distribution per term, and one of the exponent.
struct Prior {
  Terms mean = {1, 1, 1, kOverheadS};
  Terms deviation = {kLoose, kLoose, kAttentionPrior, kOverheadPrior* kOverheadS};
  Curve curve;
  double exponent_deviation = kExponentPrior;
};

class Fit {
 public:
  Fit(const Device& device, const std::vector<Sample>& samples)
      : device_(device), samples_(samples) {
    if (samples.empty()) {
      throw Error(ErrorCode::invalid_argument, "regression: no samples to fit", "samples");
    }
    for (const Sample& sample : samples) {
      if (!(sample.latency_s > 0) || !std::isfinite(sample.latency_s)) {
        throw Error(ErrorCode::out_of_range,
                    fmt::format("{}: latency_s is {}, a positive number is needed",
                                describe(sample.query), sample.latency_s),
                    "latency_s");
      }
    }
  }

  /// From the data sheet, with a common factor on weights and products.
  Prior own_prior() const {
    Prior prior;
    double log_rows = 0;
    for (const Sample& sample : samples_) log_rows += std::log(rows(sample));
    prior.curve.reference = std::exp(log_rows / static_cast<double>(samples_.size()));
    prior.curve.largest = largest();
    const double factor = std::max(1.0, common_factor(prior));
    for (const Eigen::Index k : {kWeights, kProducts}) {
      prior.mean(k) *= factor;
      prior.deviation(k) *= factor;
    }
    if (shows_attention()) {
      prior.mean(kProducts) = 1;
      prior.deviation(kProducts) = kHiddenProductsPrior;
      prior.deviation(kAttention) = kLoose;
    }
    return prior;
  }

  Prior prior_of(const LayerRegression& donor) const {
    Prior prior;
    prior.mean = donor.terms();
    prior.curve = donor.curve();
    prior.curve.largest = std::max(prior.curve.largest, largest());
    prior.exponent_deviation = kDonorExponentPrior;
    prior.mean.head<2>() *= common_factor(prior);
    Terms sums = Terms::Zero();
    double total_s = 0;
    for (const Sample& sample : samples_) {
      sums += features(device_, sample.query, prior.curve);
      total_s += sample.latency_s;
    }
    for (Eigen::Index k = 0; k < kTerms; ++k) {
      prior.deviation(k) = kDonorPrior * prior.mean(k);
      if (sums(k) > 0) prior.deviation(k) += kDonorShare * total_s / sums(k);
    }
    return prior;
  }

  /// The most probable coefficients, none negative: the exponent on a grid, the terms by least
  /// squares for each.
  std::unique_ptr<OpModel> most_probable(const Prior& prior) const {
    double least = std::numeric_limits<double>::infinity();
    Curve best_curve;
    Terms best_terms = Terms::Zero();
    for (int step = 0;; ++step) {
      Curve curve = prior.curve;
      curve.exponent = kLeastExponent + kExponentStep * step;
      if (curve.exponent > kMostExponent + kExponentStep / 2) break;
      const double off = (curve.exponent - prior.curve.exponent) / prior.exponent_deviation;
      const auto [terms, misfit] = solve(prior, curve);
      if (misfit + off * off >= least) continue;
      least = misfit + off * off;
      best_curve = curve;
      best_terms = terms;
    }
    return std::make_unique<LayerRegression>(device_, best_curve, best_terms);
  }

 private:
  static double rows(const Sample& sample) { return sample.query.batch_size * sample.query.tokens; }

  /// Whether the samples say by themselves what attention takes. 16-bit products of a decode step
  /// hide behind the weights that they wait for, so what more sequences or tokens cost is
  /// attention, once there are twice as many. Such rows told kAttentionMemoryRatio: a fold of them
  /// must not be told it by the others.
  bool shows_attention() const {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    for (const Sample& sample : samples_) {
      const OpQuery& query = sample.query;
      if (query.phase != Phase::decode || query.bitwidth != 16) return false;
      const double cached_tokens = query.batch_size * query.context_tokens;
      least = std::min(least, cached_tokens);
      most = std::max(most, cached_tokens);
    }
    return most >= 2 * least && most > 0;
  }

  double largest() const {
    double most = 0;
    for (const Sample& sample : samples_) most = std::max(most, rows(sample));
    return most;
  }

  // What the prior's mean has to be multiplied by, on geometric average.
  double common_factor(const Prior& prior) const {
    double sum = 0;
    for (const Sample& sample : samples_) {
      const double expected = prior.mean.dot(features(device_, sample.query, prior.curve));
      sum += std::log(sample.latency_s / expected);
    }
    return std::exp(sum / static_cast<double>(samples_.size()));
  }

  std::pair<Terms, double> solve(const Prior& prior, const Curve& curve) const {
    const auto count = static_cast<Eigen::Index>(samples_.size());
    Eigen::MatrixXd a = Eigen::MatrixXd::Zero(count + kTerms, kTerms);
    Eigen::VectorXd b(count + kTerms);
    for (Eigen::Index i = 0; i < count; ++i) {
      const Sample& sample = samples_[static_cast<std::size_t>(i)];
      const Terms row = features(device_, sample.query, curve);
      a.row(i) = row.transpose() / (sample.latency_s * kNoise);
      b(i) = 1 / kNoise;
    }
    for (Eigen::Index k = 0; k < kTerms; ++k) {
      const double deviation = prior.deviation(k) > 0 ? prior.deviation(k) : 1;
      a(count + k, k) = 1 / deviation;
      b(count + k) = prior.mean(k) / deviation;
    }
    const Eigen::VectorXd x = nnls(a, b);
    return {x, (a * x - b).squaredNorm()};
  }

  const Device& device_;
  const std::vector<Sample>& samples_;
};

std::unique_ptr<OpModel> fit(const Device& device, const std::vector<Sample>& samples,
                             const OpModel* donor) {
  const auto* regression = dynamic_cast<const LayerRegression*>(donor);
  if (regression != nullptr && samples.empty()) {
    return std::make_unique<LayerRegression>(device, regression->curve(), regression->terms());
  }
  const Fit problem(device, samples);
  if (donor == nullptr) return problem.most_probable(problem.own_prior());
  if (regression == nullptr) {
    throw Error(ErrorCode::invalid_argument,
                "regression: the donor's layer is not a regression; calibrate from a profile whose "
                "method is the same",
                "donor");
  }
  return problem.most_probable(problem.prior_of(*regression));
}

constexpr double kLargestTerm = 1e9, kLargestTokens = 1e12;

std::unique_ptr<OpModel> read(const Device& device, const Json& coefficients,
                              const std::string& path) {
  JsonFields fields(coefficients, path);
  const Terms terms{
      fields.number("weights", 0, kLargestTerm), fields.number("products", 0, kLargestTerm),
      fields.number("attention", 0, kLargestTerm), fields.number("overhead_s", 0, 3600)};
  Curve curve;
  curve.exponent = fields.number("exponent", 0.01, 10);
  curve.reference = fields.number("reference_tokens", 1e-3, kLargestTokens);
  curve.largest = fields.number("largest_tokens", 1e-3, kLargestTokens);
  fields.finish();
  if (!(terms.sum() > 0)) {
    refuse(ErrorCode::out_of_range, path, "all terms are 0, so every layer would take 0 s");
  }
  return std::make_unique<LayerRegression>(device, curve, terms);
}

}  // namespace

const FitMethod& layer_regression() {
  static const FitMethod method{"regression", fit, read};
  return method;
}

}  // namespace tessera::cost::models
