#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "tessera/core/units.h"
#include "tessera/lm/language_model.h"

namespace tessera::lm {

/// A cache in which slot s owns the blocks after those of slot s - 1: for sequences that run side
/// by side and are forgotten together. Each block of a model whose layers keep a state holds one,
/// of which only the last is read again: there a slot is one block.
class Slots {
 public:
  Slots(const LanguageModel& model, std::int64_t num_slots, std::int64_t max_tokens)
      : block_size_(model.shape().state_bytes_per_sequence() > 0 ? max_tokens : kBlockTokens),
        blocks_per_slot_(ceil_div(max_tokens, block_size_)),
        blocks_(static_cast<std::size_t>(num_slots * blocks_per_slot_)),
        cache_(model.make_cache(num_slots * blocks_per_slot_, block_size_)) {
    std::iota(blocks_.begin(), blocks_.end(), 0);
  }

  KvCache& cache() const { return *cache_; }
  /// The block table of a slot that holds so many tokens.
  std::span<const std::int32_t> blocks(std::int64_t slot, std::int64_t num_tokens) const {
    return std::span(blocks_).subspan(static_cast<std::size_t>(slot * blocks_per_slot_),
                                      static_cast<std::size_t>(ceil_div(num_tokens, block_size_)));
  }

 private:
  std::int64_t block_size_, blocks_per_slot_;
  std::vector<std::int32_t> blocks_;  ///< 0, 1, ...
  std::unique_ptr<KvCache> cache_;
};

}  // namespace tessera::lm
