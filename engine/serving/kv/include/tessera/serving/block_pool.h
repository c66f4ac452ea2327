#pragma once

#include <cstdint>
#include <vector>

#include "tessera/serving/block_index.h"

namespace tessera::serving {

using Block = std::int32_t;

/// Blocks with reference counts, of which full ones can be found again by the hash of their tokens
/// as long as nobody needs their memory: vLLM's prefix cache (v1/core/block_pool.py). A block that
/// nobody holds waits in a queue; the one that has waited longest is taken first, and forgotten.
class BlockPool {
 public:
  explicit BlockPool(std::int64_t num_blocks);

  std::int64_t num_blocks() const { return num_blocks_; }
  std::int64_t num_free() const { return num_free_; }      ///< held by nobody
  std::int64_t num_cached() const { return num_cached_; }  ///< that a hash finds

  static constexpr Block none = -1;
  /// The block found longest ago under the hash, or none.
  Block find(std::uint64_t hash) const;
  /// The next one under its hash, or none.
  Block next(Block block) const { return nodes_[index(block)].same_hash; }
  bool is_held(Block block) const { return nodes_[index(block)].references > 0; }

  /// Takes the block that was free longest. There must be one.
  Block take();
  /// One more holder of a block that may be free.
  void share(Block block);
  /// One holder less of a sequence's blocks, the last first. Those that nobody holds any more join
  /// the queue: at its end where a hash finds them, so that of one prefix the tail goes first, else
  /// in front.
  void release(const std::vector<Block>& blocks);
  /// Can be found from now on. Another block of the same hash stays the first choice.
  void publish(Block block, std::uint64_t hash);
  /// Likewise by whoever remembers the block: `find` does not see it.
  void publish_own(Block block, std::uint64_t hash);
  /// Whether it still holds the tokens that it was published with.
  bool holds(Block block, std::uint64_t hash) const {
    const Node& node = nodes_[index(block)];
    return node.cached && node.hash == hash;
  }

  /// What blocks hold is lost: none is found any more.
  void forget_all();

  /// Counts everything anew. @throws Error{internal} naming what does not add up.
  void check() const;

 private:
  // A ring through node kRing holds the free ones; another list joins blocks of the same hash.
  // Blocks that were never taken, always the last ones, are node kUntouched of the ring together,
  // so that memory which nobody uses costs none here.
  struct Node {
    std::int32_t previous = 0, next = 0;
    std::int32_t references = 0;
    Block same_hash = none;  ///< the next block of its hash
    std::uint64_t hash = 0;
    bool cached = false, own = false;
  };
  static constexpr std::int32_t kRing = 0, kUntouched = 1, kNumMarks = 2;
  static std::int32_t node_of(Block block) { return block + kNumMarks; }
  static std::size_t index(Block block) { return static_cast<std::size_t>(node_of(block)); }
  std::int64_t num_touched() const { return static_cast<std::int64_t>(nodes_.size()) - kNumMarks; }
  Block touch();
  void unlink(std::int32_t node);
  void link(std::int32_t node, std::int32_t before);
  void forget(Block block);

  std::int64_t num_blocks_;
  std::vector<Node> nodes_;
  BlockIndex first_;  ///< of the blocks of one hash
  std::int64_t num_free_ = 0, num_cached_ = 0;
};

}  // namespace tessera::serving
