#pragma once

#include <cstdint>

#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Rotary position embedding (Su et al., 2021, section 3.4.2) of the first `rotary_width` numbers
/// of every head; the others stay as they are.
struct RopeForm {
  std::int64_t num_heads, head_dim;
  std::int64_t rotary_width;  ///< even, at most head_dim
  /// The numbers of pair i are 2 i and 2 i + 1 (GPT-J); otherwise i and i + rotary_width / 2
  /// (GPT-NeoX, Llama).
  bool interleaved;
};

/// Rotates the heads of x [rows][stride], side by side in a row, in place: pair (a, b) of a row at
/// position p becomes (a cos - b sin, b cos + a sin). cos_sin [positions][rotary_width]: the
/// cosines of the rotary_width / 2 pairs, then their sines; positions [rows], none negative (its
/// upper end cannot be checked). `invalid_argument` leaves x as it was.
Status rotate(float* x, std::int64_t stride, Rows rows, RopeForm form, const float* cos_sin,
              const std::int32_t* positions);

}  // namespace tessera::kernels
