#pragma once

#include <cstdint>
#include <vector>

#include "tessera/lm/backend.h"

namespace tessera::lm {

/// A gated delta net (Yang et al., Gated Delta Networks, arXiv:2412.06464, eq. 10), as Qwen3-Next
/// has it: keys and values pass a short convolution, and each value head keeps a matrix that decays
/// and is corrected towards the values of the keys that it has seen.
struct DeltaNet {
  std::int64_t num_key_heads = 0, num_value_heads = 0;  ///< a key head serves several of values
  std::int64_t key_dim = 0, value_dim = 0;
  std::int64_t kernel = 0;  ///< inputs that the convolution sees

  std::int64_t channels() const {
    return 2 * num_key_heads * key_dim + num_value_heads * value_dim;
  }
  std::int64_t values() const { return num_value_heads * value_dim; }
  /// Columns of what goes in: of each key head q, k, its values and their gates z; then of each the
  /// b and the a of its value heads.
  std::int64_t columns() const { return channels() + values() + 2 * num_value_heads; }
  /// The last inputs of the convolution [kernel - 1][channels], and a matrix [key_dim][value_dim]
  /// of each value head.
  std::int64_t state_numbers() const { return (kernel - 1) * channels() + values() * key_dim; }
};

/// In memory of the program.
struct DeltaNetWeights {
  std::vector<float> convolution;       ///< [channels][kernel], oldest first
  std::vector<float> decay, step_bias;  ///< [num_value_heads]
  std::vector<float> norm;              ///< [value_dim]
  float epsilon = 0;
};

/// Takes the tokens `in` [tokens][columns] of a sequence one after the other from `state` [state
/// numbers] on, and leaves it as it is after them. out [tokens][values].
void run_delta_net(const DeltaNet& net, const DeltaNetWeights& weights, Rows2d in, float* state,
                   Rows2d out, int num_threads);

}  // namespace tessera::lm
