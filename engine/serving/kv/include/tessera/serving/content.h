#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/serving/block_pool.h"
#include "tessera/serving/token_chain.h"

namespace tessera::serving {

/// A hash and one thing more: every bit of both reaches every bit of the result.
std::uint64_t mixed_hash(std::uint64_t hash, std::uint64_t part);

/// What the tokens of a request are, as far as blocks can be found again: see Request in traffic.h.
struct Content {
  std::uint64_t own = 0;  ///< of all that it shares with nobody
  std::int64_t prefix_group = -1, prefix_tokens = 0;
  std::int64_t stream = -1;
  const std::int64_t* block_ids = nullptr;  ///< of its prompt; not owned
  std::int64_t num_block_ids = 0, block_id_tokens = 512;
  std::int64_t prompt_tokens = 0;
  /// The real tokens, where they are known; then nothing of the above counts. Shared with whoever
  /// makes them: `Scheduler::complete` appends what was generated.
  std::shared_ptr<TokenChain> tokens = nullptr;

  /// Hash of the tokens up to the end of block `block` of `block_size` tokens: equal where all of
  /// them are, and else by chance of 2^-64.
  std::uint64_t block_hash(std::int64_t block, std::int64_t block_size) const;
  /// Whether nobody else can hold these tokens.
  bool is_own(std::int64_t block, std::int64_t block_size) const;

  /// Blocks of its own from before a preemption, in the order in which they could be found: they
  /// need no place in the index of all, which most blocks of a run never leave again.
  struct Kept {
    std::int64_t position = 0;
    Block block = BlockPool::none;
  };
  std::vector<Kept> kept = {};
};

}  // namespace tessera::serving
