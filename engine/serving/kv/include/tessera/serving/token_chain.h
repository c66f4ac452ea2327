#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::serving {

using Token = std::int32_t;

/// A full block of tokens, with all before it.
struct ChainBlock {
  ChainBlock(std::shared_ptr<const ChainBlock> chain, std::vector<Token> block, std::uint64_t of);
  ~ChainBlock();  ///< without a call for each block before it, of which there may be many
  ChainBlock(const ChainBlock&) = delete;
  ChainBlock& operator=(const ChainBlock&) = delete;

  mutable std::shared_ptr<const ChainBlock> before;  ///< null: it is the first
  std::vector<Token> tokens;
  std::uint64_t hash = 0;  ///< of all of them
};

/// Whether two blocks have the same tokens, and so all before them.
bool same_tokens(const ChainBlock* a, const ChainBlock* b);

/// The tokens of a sequence in full blocks, growing as tokens come. Equal hashes are no proof: what
/// users send can be made to collide, so that whoever finds a block compares.
class TokenChain {
 public:
  /// @param salt what is found under one salt is not found under another (vLLM's cache_salt)
  explicit TokenChain(std::int64_t block_size, const std::string& salt = {});

  void append(std::span<const Token> tokens);
  std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
  const std::shared_ptr<const ChainBlock>& block(std::int64_t i) const {
    return blocks_[static_cast<std::size_t>(i)];
  }
  /// Has the same tokens at place i: from now on they are one, and compared at once.
  void adopt(std::int64_t i, std::shared_ptr<const ChainBlock> block) {
    blocks_[static_cast<std::size_t>(i)] = std::move(block);
  }

 private:
  std::size_t block_size_;
  std::shared_ptr<const ChainBlock> root_;  ///< of the salt; null without one
  std::vector<std::shared_ptr<const ChainBlock>> blocks_;
  std::vector<Token> rest_;  ///< that fill no block yet
};

}  // namespace tessera::serving
