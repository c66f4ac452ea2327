#pragma once

#include <cmath>
#include <cstdint>

namespace tessera::lm {

inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

inline float softplus(float x) {
  constexpr float kLinear = 20;  // from where on it is x in f32
  return x > kLinear ? x : std::log1p(std::exp(x));
}

/// Weighs each channel's last inputs.
struct ShortConvolution {
  std::int64_t channels = 0, kernel = 0;
  const float* weight = nullptr;  ///< [channels][kernel], oldest first
  const float* bias = nullptr;    ///< [channels], or null
  float* state = nullptr;         ///< [kernel - 1][channels], the inputs of before
  bool activated = true;          ///< silu of the sum is taken

  /// One input of the channels [first, first + count), which is kept.
  void take(const float* in, std::int64_t first, std::int64_t count, float* out) const {
    const std::int64_t before = kernel - 1;
    for (std::int64_t c = 0; c < count; ++c) {
      const std::int64_t channel = first + c;
      const float* own = weight + channel * kernel;
      float sum = own[before] * in[c];
      for (std::int64_t i = 0; i < before; ++i) {
        float& kept = state[i * channels + channel];
        sum += own[i] * kept;
        kept = i + 1 < before ? state[(i + 1) * channels + channel] : in[c];
      }
      if (bias != nullptr) sum += bias[channel];
      out[c] = activated ? sum * sigmoid(sum) : sum;
    }
  }
};

}  // namespace tessera::lm
