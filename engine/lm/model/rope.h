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
};

struct RopeRequest {
  std::int64_t width = 0;
  double theta = 10000;
  std::int64_t max_context_tokens = 0;
  std::vector<float> factors;  ///< [width / 2] that frequencies are divided by; empty: none
};

/// With the scaling that `scaling` asks for: null or "default", "linear" (positions divided by
/// `factor`), "dynamic" (nothing within the model's context), "llama3" (Llama 3.1's blend),
/// "yarn" (Peng et al., arXiv:2309.00071, section 3.2).
/// @throws Error{unsupported} for another rope_type, Error{invalid_argument} for its numbers
Rope make_rope(const RopeRequest& request, const Json& scaling, const std::string& path);

/// [width]: cosines of the pairs at a position, then sines; what kernels::rotate reads.
void rope_row(const Rope& rope, std::int64_t position, float* row);

}  // namespace tessera::lm
