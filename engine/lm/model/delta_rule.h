#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

// What gated delta nets have in common (Yang et al., arXiv:2406.06484, section 2): a matrix that
// forgets, and is corrected towards the values of the keys that it has seen.
namespace tessera::lm {

/// Its length becomes `length`.
inline void set_length(std::vector<float>& x, float length) {
  constexpr float kEpsilon = 1e-6f;
  float sum = 0;
  for (const float number : x) sum += number * number;
  const float factor = length / std::sqrt(sum + kEpsilon);
  for (float& number : x) number *= factor;
}

/// A token of a head.
struct DeltaToken {
  const std::vector<float>& query;  ///< [key_dim]
  const std::vector<float>& key;    ///< [key_dim], of length 1
  const float* value;               ///< [value_dim]
  float beta;                       ///< how much of the error is corrected
};

/// `matrix` [key_dim][value_dim] takes the token and is read by its query into `out` [value_dim].
/// `decay(i)` is what row i keeps; `error` [value_dim] is room.
template <class Decay>
void take_delta(const DeltaToken& token, const Decay& decay, float* matrix,
                std::vector<float>& error, float* out) {
  const std::int64_t width = std::ssize(error), keys = std::ssize(token.key);
  std::ranges::fill(error, 0.0f);
  for (std::int64_t i = 0; i < keys; ++i) {
    float* row = matrix + i * width;
    const float key = token.key[static_cast<std::size_t>(i)], kept = decay(i);
    for (std::int64_t j = 0; j < width; ++j) {
      row[j] *= kept;
      error[static_cast<std::size_t>(j)] += row[j] * key;
    }
  }
  for (std::int64_t j = 0; j < width; ++j) {
    float& own = error[static_cast<std::size_t>(j)];
    own = (token.value[j] - own) * token.beta;
  }
  std::fill_n(out, width, 0.0f);
  for (std::int64_t i = 0; i < keys; ++i) {
    float* row = matrix + i * width;
    const float key = token.key[static_cast<std::size_t>(i)];
    const float query = token.query[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < width; ++j) {
      row[j] += key * error[static_cast<std::size_t>(j)];
      out[j] += row[j] * query;
    }
  }
}

}  // namespace tessera::lm
