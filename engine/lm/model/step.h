#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "description.h"
#include "tessera/lm/backend.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// Rows of a sequence in a step, and the blocks of its last tokens, before the step and after it.
struct SequenceRows {
  std::int64_t first = 0, count = 0, context_tokens = 0;
  std::int32_t from_block = -1;  ///< -1: it begins here
  std::int32_t to_block = 0;
};

/// A ragged batch, checked and laid out for the device.
struct Step {
  std::int64_t num_tokens = 0;
  std::vector<std::int32_t> tokens, positions;  ///< [num_tokens]
  std::vector<std::int64_t> logit_rows;         ///< tokens whose logits are wanted
  std::vector<SequenceRows> sequences;
  BatchTables tables;
  std::vector<Memory> cos_sin;  ///< [ropes], each [num_tokens][width]
};

/// @throws Error{out_of_range, invalid_argument} naming the sequence and the limit
Step make_step(std::span<const SequenceStep> batch, const Description& description,
               std::int64_t num_blocks, std::int64_t block_size, const Backend& backend);

}  // namespace tessera::lm
