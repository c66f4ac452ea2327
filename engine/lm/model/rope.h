#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/core/json.h"

namespace tessera::lm {

/// Rotary embeddings (Su et al., RoFormer, arXiv:2104.09864, eq. 34) of one kind of layer.
struct Rope {
  std::int64_t width = 0;                   ///< features of a head that are rotated, even
  std::vector<double> inverse_frequencies;  ///< [width / 2], radians per position
  double attention_factor = 1;              ///< cosines and sines are multiplied by it (YaRN)
  double score_factor = 1;  ///< and scores of latents, of whose keys only a part turns (DeepSeek)

  /// Of sequences longer than so many tokens the frequencies are others; 0: of none. They go by
  /// the length when a token is computed, and keys in a cache stay as they were turned.
  std::int64_t short_tokens = 0;
  std::vector<double> long_frequencies;  ///< [width / 2] LongRoPE; empty: by length, dynamic NTK
  double theta = 10000, factor = 1;      ///< of dynamic NTK
};

struct RopeRequest {
  std::int64_t width = 0;
  double part = 1;  ///< of the pairs that turn, where the scaling is "proportional"
  double theta = 10000;
  std::int64_t max_context_tokens = 0;  ///< as the file writes it
  std::int64_t original_tokens = 0;     ///< original_max_position_embeddings beside the scaling; 0
  std::vector<float> factors;  ///< [width / 2] that frequencies are divided by; empty: none
};

/// With the scaling that `scaling` asks for: null or "default", "linear" (positions divided by
/// `factor`), "dynamic" (bases that grow with the sequence past the model's context), "llama3"
/// (Llama 3.1's blend), "yarn" (Peng et al., arXiv:2309.00071, section 3.2), "longrope" (Ding et
/// al., arXiv:2402.13753: factors per pair), "proportional" (the first pairs turn, the others by
/// 0).
/// @throws Error{unsupported} for another rope_type, Error{invalid_argument} for its numbers
Rope make_rope(const RopeRequest& request, const Json& scaling, const std::string& path);

/// The frequencies in a sequence of so many tokens, more than short_tokens.
std::vector<double> long_frequencies_at(const Rope& rope, std::int64_t sequence_tokens);

/// [width]: cosines of the pairs at a position, then sines; what kernels::rotate reads.
void rope_row(const Rope& rope, const std::vector<double>& frequencies, std::int64_t position,
              float* row);

}  // namespace tessera::lm
