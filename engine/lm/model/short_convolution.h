#pragma once

#include <cmath>
#include <cstdint>

#include "state_mixer.h"
#include "tessera/kernels/parallel.h"

namespace tessera::lm {

inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

inline float softplus(float x) {
  constexpr float kLinear = 20;  // from where on it is x in f32
  return x > kLinear ? x : std::log1p(std::exp(x));
}

/// What makes the mean square 1.
inline float rms_factor(const float* x, std::int64_t count, float epsilon) {
  float sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return 1 / std::sqrt(sum / static_cast<float>(count) + epsilon);
}

/// Channels that a thread takes at a time.
inline constexpr std::int64_t kSliceChannels = 64;

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

  /// All channels of each row, [in.rows][channels] in `out`.
  void take_rows(Rows2d in, float* out, int num_threads) const {
    kernels::for_slices(num_threads, channels, kSliceChannels,
                        [&](std::int64_t first, std::int64_t last) {
                          for (std::int64_t row = 0; row < in.rows; ++row) {
                            take(in.data + row * in.stride + first, first, last - first,
                                 out + row * channels + first);
                          }
                        });
  }
};

/// A mixer's, beside the state of a sequence.
inline ShortConvolution convolution_of(const StateWeights& weights, std::int64_t channels,
                                       std::int64_t kernel, float* state) {
  const auto& bias = weights.convolution_bias;
  return {.channels = channels,
          .kernel = kernel,
          .weight = weights.convolution.data(),
          .bias = bias.empty() ? nullptr : bias.data(),
          .state = state};
}

}  // namespace tessera::lm
