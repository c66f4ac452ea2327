#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/core/arithmetic.h"
#include "tessera/core/json.h"
#include "tessera/lm/backend.h"

// Several hidden states of a token (Gemma 3n), in memory of the program.
namespace tessera::lm {

struct Description;

/// How many there are, and which gates of their layers stay shut, as the file says.
/// @throws Error{unsupported, invalid_argument, out_of_range} naming the key
void describe_streams(JsonFields& fields, const Arithmetic& family, Description& description);

/// How a layer, which reads and writes the first of a token's hidden states, moves the others
/// (Baykal et al., Alternating Updates, arXiv:2301.13310, section 3): all are predicted as sums of
/// all, and corrected by what the layer made of the first. The weights of both are a router's.
struct StreamWeights {
  std::vector<float> router_norm;  ///< [hidden]
  std::vector<float> router;       ///< [streams][hidden]
  std::vector<float>
      prediction;  ///< [streams][streams][streams]: of a state, of another, by router
  std::vector<float> correction;  ///< [streams][streams]: of a state, by router
  std::vector<float> scale;       ///< [hidden], of the first where inputs by token read it
  float epsilon = 0;
};

/// `states` and `predicted` [streams], each [tokens][hidden].
void predict_streams(const StreamWeights& weights, std::span<const Rows2d> states,
                     std::span<const Rows2d> predicted);
/// The first of `states` is what the layer made of the first of `predicted`; all are corrected.
void correct_streams(const StreamWeights& weights, std::span<const Rows2d> predicted,
                     std::span<const Rows2d> states);

/// Each row of x gets the mean square of that of `like`.
void match_magnitude(Rows2d like, Rows2d x);

/// x = max(0, x - (mean + spread deviation)) of each row's own: gates open above that alone.
void open_above(float spread, Rows2d x);

}  // namespace tessera::lm
