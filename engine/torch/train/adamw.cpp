#include "adamw.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace tessera::lm::train {
namespace {

// A second moment that forgets after 50 steps: runs here have some thousand.
constexpr double kBeta1 = 0.9, kBeta2 = 0.98, kEpsilon = 1e-8;
constexpr std::int64_t kGrain = 1 << 16;

}  // namespace

double learning_rate(const TrainRequest& request, std::int64_t step) {
  const double peak = request.peak_learning_rate;
  if (step < request.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(request.warmup_steps);
  }
  const std::int64_t rest = request.num_steps - request.warmup_steps;
  const std::int64_t decay = request.decay_steps.value_or(rest);
  const std::int64_t decayed = step - (request.num_steps - decay);
  if (decayed <= 0) return peak;
  const double part = static_cast<double>(decayed) / static_cast<double>(decay);
  const double low = request.final_learning_rate_ratio;
  return peak * (low + (1 - low) * 0.5 * (1 + std::cos(std::numbers::pi * part)));
}

AdamW::AdamW(const TrainRequest& request, at::Tensor values, at::Tensor decays)
    : weight_decay_(request.weight_decay),
      max_norm_(request.max_gradient_norm),
      values_(std::move(values)),
      decays_(std::move(decays)),
      mean_(at::zeros_like(values_)),
      square_(at::zeros_like(values_)) {}

double AdamW::step(const at::Tensor& gradient, double rate) {
  ++num_steps_;
  const double norm = gradient.norm().item<double>();
  const auto count = static_cast<double>(num_steps_);
  const auto clip = static_cast<float>(norm > max_norm_ ? max_norm_ / norm : 1.0);
  const auto step_size = static_cast<float>(rate / (1 - std::pow(kBeta1, count)));
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(kBeta2, count)));
  const auto shrink = static_cast<float>(rate * weight_decay_);
  const auto b1 = static_cast<float>(kBeta1), b2 = static_cast<float>(kBeta2);
  float *w = values_.data_ptr<float>(), *m = mean_.data_ptr<float>();
  float* v = square_.data_ptr<float>();
  const float *g = gradient.data_ptr<float>(), *d = decays_.data_ptr<float>();
  at::parallel_for(0, values_.numel(), kGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float slope = g[i] * clip;
      m[i] = b1 * m[i] + (1 - b1) * slope;
      v[i] = b2 * v[i] + (1 - b2) * slope * slope;
      w[i] -= shrink * d[i] * w[i] +
              step_size * m[i] / (std::sqrt(v[i]) * root + static_cast<float>(kEpsilon));
    }
  });
  return norm;
}

}  // namespace tessera::lm::train
