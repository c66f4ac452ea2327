#include "tessera/lm/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tessera/core/error.h"
#include "tessera/core/rng.h"

namespace tessera::lm {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void check_logits(std::span<const float> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float logit = logits[i];
    if (std::isnan(logit) || (std::isinf(logit) && logit > 0)) {
      refuse("logits",
             "token {} of {} got {}; the weights hold numbers that are not finite, or overflowed "
             "in this dtype (f32 has the widest range)",
             i, logits.size(), std::isnan(logit) ? "NaN" : "infinity");
    }
    any = any || !std::isinf(logit);
  }
  if (!any) refuse("logits", "all {} are -infinity: no token can follow", logits.size());
}

}  // namespace

Sampler::Sampler(const SamplingOptions& options, std::int64_t vocab_size)
    : options_(options),
      key_(Rng(options.seed).next()),
      seen_(static_cast<std::size_t>(vocab_size), 0),
      weights_(static_cast<std::size_t>(vocab_size)) {}

void Sampler::see(std::int32_t token) { seen_.at(static_cast<std::size_t>(token)) = 1; }

void Sampler::penalise(std::span<const float> logits) {
  if (logits.size() != weights_.size()) {
    refuse("logits", "there are {} for a vocabulary of {} tokens", logits.size(), weights_.size());
  }
  check_logits(logits);
  std::copy(logits.begin(), logits.end(), weights_.begin());
  if (options_.repetition_penalty == 1) return;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!seen_[i]) continue;
    weights_[i] *= weights_[i] < 0 ? options_.repetition_penalty : 1 / options_.repetition_penalty;
  }
}

// Whatever is as likely as the k-th stays, as in Hugging Face's TopKLogitsWarper.
void Sampler::keep_top_k() {
  const auto k = static_cast<std::size_t>(options_.top_k);
  if (k == 0 || k >= weights_.size()) return;
  sorted_ = weights_;
  const auto last = sorted_.begin() + static_cast<std::ptrdiff_t>(k - 1);
  std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<>());
  for (double& weight : weights_) {
    if (weight < *last) weight = kNever;
  }
}

void Sampler::normalise() {
  const double highest = *std::max_element(weights_.begin(), weights_.end());
  double sum = 0;
  for (double& weight : weights_) sum += weight = std::exp(weight - highest);
  for (double& weight : weights_) weight /= sum;
}

// A token stays where those before it, in the order of their probability, have less than top_p
// together: TopPLogitsWarper, which sums from the other end.
void Sampler::keep_top_p() {
  if (options_.top_p >= 1) return;
  ids_.clear();
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) ids_.push_back(static_cast<std::int32_t>(i));
  }
  const auto probability = [&](std::int32_t id) -> double& {
    return weights_[static_cast<std::size_t>(id)];
  };
  std::stable_sort(ids_.begin(), ids_.end(),
                   [&](std::int32_t a, std::int32_t b) { return probability(a) > probability(b); });
  double before = 0;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    double& own = probability(ids_[i]);
    const bool kept = i == 0 || before < options_.top_p;
    if (kept) {
      before += own;
    } else {
      own = 0;
    }
  }
  for (const std::int32_t id : ids_) probability(id) /= before;
}

std::span<const double> Sampler::probabilities(std::span<const float> logits) {
  penalise(logits);
  if (options_.temperature == 0) {
    const auto best = std::max_element(weights_.begin(), weights_.end()) - weights_.begin();
    std::fill(weights_.begin(), weights_.end(), 0.0);
    weights_[static_cast<std::size_t>(best)] = 1;
    return weights_;
  }
  // The highest is taken off first, as a small temperature would make it infinite.
  const double highest = *std::max_element(weights_.begin(), weights_.end());
  for (double& weight : weights_) weight = (weight - highest) / options_.temperature;
  keep_top_k();
  normalise();
  keep_top_p();
  return weights_;
}

std::int32_t Sampler::choose(std::span<const float> logits, std::int64_t step) {
  const std::span<const double> chances = probabilities(logits);
  const double draw = Rng(key_ + static_cast<std::uint64_t>(step)).uniform();
  double sum = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < chances.size(); ++i) {
    if (chances[i] <= 0) continue;
    last = i;
    sum += chances[i];
    if (draw < sum) break;
  }
  return static_cast<std::int32_t>(last);  // the last one where rounding leaves the sum below 1
}

}  // namespace tessera::lm
