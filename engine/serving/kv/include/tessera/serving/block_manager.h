#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/serving/block_pool.h"
#include "tessera/serving/content.h"
#include "tessera/serving/engine_options.h"

namespace tessera::serving {

/// What a sequence holds of the KV cache.
struct BlockTable {
  std::int64_t num_blocks = 0;
  std::vector<Block> blocks;       ///< by position; where blocks have names
  std::int64_t num_published = 0;  ///< full blocks that others can find
  std::int64_t first_unit = -1;    ///< of a contiguous region
};

/// The memory of an engine for keys and values, in blocks of tokens. Counts blocks; names them only
/// where prefixes are cached, or somebody wants to know where they are.
class BlockManager {
 public:
  struct Options {
    std::int64_t num_blocks = 0, block_size = 16;
    bool prefix_caching = false;
    KvAllocation allocation = KvAllocation::paged;
    /// Of KvAllocation::maximum; 0: a request's prompt and max_tokens are set aside for it.
    std::int64_t max_model_len = 0;
    std::int64_t host_blocks = 0;  ///< in host memory, for sequences that are swapped out
    /// Names blocks always, for who moves or computes them. Counts stay what they are.
    bool named = false;
  };
  explicit BlockManager(const Options& options);

  std::int64_t block_size() const { return options_.block_size; }
  std::int64_t num_blocks() const { return options_.num_blocks; }
  std::int64_t num_free() const { return pool_ ? pool_->num_free() : num_free_; }
  bool caches_prefixes() const { return options_.prefix_caching && is_paged(); }
  /// Whether nobody knows which blocks a sequence has.
  bool only_counts() const { return !pool_ && is_paged(); }
  bool is_paged() const { return options_.allocation == KvAllocation::paged; }
  std::int64_t num_free_host() const { return host_.num_free(); }
  std::int64_t blocks_for(std::int64_t tokens) const {
    return (tokens + options_.block_size - 1) / options_.block_size;
  }
  /// Blocks that a sequence is given which may grow to `most_tokens`: what it holds now under
  /// paging, else what is set aside for it.
  std::int64_t blocks_reserved(std::int64_t tokens, std::int64_t most_tokens) const;

  /// Full blocks from the start of a sequence that are there, of the first `tokens` tokens.
  std::int64_t find_prefix(const Content& content, std::int64_t tokens) const;
  /// Free blocks that go when a sequence that holds nothing is given `tokens` tokens, of which the
  /// first `num_found` blocks were found: those that nobody holds go too.
  std::int64_t blocks_needed(const Content& content, std::int64_t tokens, std::int64_t most_tokens,
                             std::int64_t num_found) const;
  /// Whether it could be given them, with `keep_free` blocks left.
  bool fits(const Content& content, std::int64_t tokens, std::int64_t most_tokens,
            std::int64_t num_found, std::int64_t keep_free = 0) const;
  /// Hands a sequence that holds nothing its first blocks: those found, shared, and new ones for
  /// `tokens` tokens. False, with nothing changed, where they are short.
  bool admit(BlockTable& table, const Content& content, std::int64_t tokens,
             std::int64_t most_tokens, std::int64_t num_found);
  /// Whether a sequence's blocks have room for so many.
  bool has_room(const BlockTable& table, std::int64_t tokens) const {
    return tokens <= table.num_blocks * options_.block_size;
  }
  /// Makes room for `tokens` tokens in all. False, with nothing changed, where blocks are short.
  bool extend(BlockTable& table, std::int64_t tokens);
  /// The same of many sequences at once, by the blocks that they need; where blocks are only
  /// counted, and free.
  void take(std::int64_t blocks) { num_free_ -= blocks; }
  /// Lets others find the full blocks among the first `tokens`.
  void publish(BlockTable& table, const Content& content, std::int64_t tokens) {
    if (!caches_prefixes()) return;
    const bool is_new = tokens >= (table.num_published + 1) * options_.block_size;
    if (is_new) publish_full(table, content, tokens);
  }
  /// Notes in `content` which blocks of its own can be found again, before they are given back.
  void remember(const BlockTable& table, Content& content) const;
  /// Gives all back, the last block first.
  void release(BlockTable& table);
  /// The blocks of a sequence by position; none where they have no names.
  std::vector<Block> names(const BlockTable& table) const;
  /// Takes so many blocks of host memory, of which there must be enough; and gives them back.
  std::vector<Block> take_host(std::int64_t count);
  void release_host(const std::vector<Block>& blocks) { host_.release(blocks); }
  /// What blocks hold is lost: none is found any more.
  void forget_all() {
    if (pool_) pool_->forget_all();
  }

  /// Free memory that a request of this size cannot have, since no hole is large enough; in blocks.
  std::int64_t unusable_blocks(std::int64_t most_tokens) const;

  void check() const;

 private:
  void publish_full(BlockTable& table, const Content& content, std::int64_t tokens);
  Block find(const Content& content, std::int64_t position) const;
  Block find_tokens(TokenChain& tokens, std::int64_t position) const;
  bool take_region(BlockTable& table, std::int64_t units);

  Options options_;
  std::int64_t num_free_ = 0;
  std::optional<BlockPool> pool_;
  BlockPool host_;
  /// [block] of real tokens, what it was published with.
  std::vector<std::shared_ptr<const ChainBlock>> chains_;
  std::map<std::int64_t, std::int64_t> holes_;  ///< contiguous: first unit to length
};

}  // namespace tessera::serving
