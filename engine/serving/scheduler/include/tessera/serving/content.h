#pragma once

#include <cstdint>

namespace tessera::serving {

/// What the tokens of a request are, as far as blocks can be found again: see Request in traffic.h.
struct Content {
  std::uint64_t own = 0;  ///< of all that it shares with nobody
  std::int64_t prefix_group = -1, prefix_tokens = 0;
  std::int64_t stream = -1;
  const std::int64_t* block_ids = nullptr;  ///< of its prompt; not owned
  std::int64_t num_block_ids = 0, block_id_tokens = 512;
  std::int64_t prompt_tokens = 0;

  /// Hash of the tokens up to the end of block `block` of `block_size` tokens: equal where all of
  /// them are, and else by chance of 2^-64.
  std::uint64_t block_hash(std::int64_t block, std::int64_t block_size) const;
};

}  // namespace tessera::serving
