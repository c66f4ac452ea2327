#include "tessera/serving/block_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tessera/core/error.h"

namespace tessera::serving {
namespace {

/// No host has as many; and blocks are numbered in 32 bits.
constexpr std::int64_t kMostHostBlocks = 1'000'000'000;

}  // namespace

BlockManager::BlockManager(const Options& options)
    : options_(options),
      num_free_(options.num_blocks),
      host_(std::min(options.host_blocks, kMostHostBlocks)) {
  const bool in_regions = options.allocation == KvAllocation::contiguous;
  if (caches_prefixes() || (options.named && !in_regions)) pool_.emplace(options.num_blocks);
  if (options.allocation == KvAllocation::contiguous) holes_.emplace(0, options.num_blocks);
}

std::int64_t BlockManager::blocks_reserved(std::int64_t tokens, std::int64_t most_tokens) const {
  switch (options_.allocation) {
    case KvAllocation::paged:
      return blocks_for(tokens);
    case KvAllocation::contiguous:
      return blocks_for(std::max(tokens, most_tokens));
    case KvAllocation::maximum:
      break;
  }
  const std::int64_t len = options_.max_model_len;
  return blocks_for(std::max(tokens, len > 0 ? len : most_tokens));
}

Block BlockManager::find(const Content& content, std::int64_t position) const {
  const std::uint64_t hash = content.block_hash(position, options_.block_size);
  if (content.tokens) return find_tokens(*content.tokens, position);
  if (!content.is_own(position, options_.block_size)) return pool_->find(hash);
  for (const Content::Kept& kept : content.kept) {
    if (kept.position == position && pool_->holds(kept.block, hash)) return kept.block;
  }
  return BlockPool::none;
}

// Of several blocks under the hash one whose tokens are really these.
Block BlockManager::find_tokens(TokenChain& tokens, std::int64_t position) const {
  const std::shared_ptr<const ChainBlock>& wanted = tokens.block(position);
  Block block = pool_->find(wanted->hash);
  for (; block != BlockPool::none; block = pool_->next(block)) {
    const auto& chain = chains_[static_cast<std::size_t>(block)];
    if (!same_tokens(chain.get(), wanted.get())) continue;
    tokens.adopt(position, chain);
    return block;
  }
  return block;
}

void BlockManager::remember(const BlockTable& table, Content& content) const {
  if (!caches_prefixes()) return;
  for (std::int64_t b = 0; b < table.num_published; ++b) {
    if (!content.is_own(b, options_.block_size)) continue;
    content.kept.push_back({b, table.blocks[static_cast<std::size_t>(b)]});
  }
}

std::int64_t BlockManager::find_prefix(const Content& content, std::int64_t tokens) const {
  if (!caches_prefixes()) return 0;
  std::int64_t full = tokens / options_.block_size;
  if (content.tokens) full = std::min(full, content.tokens->num_blocks());
  for (std::int64_t b = 0; b < full; ++b) {
    if (find(content, b) == BlockPool::none) return b;
  }
  return full;
}

std::int64_t BlockManager::blocks_needed(const Content& content, std::int64_t tokens,
                                         std::int64_t most_tokens, std::int64_t num_found) const {
  std::int64_t need = blocks_reserved(tokens, most_tokens) - num_found;
  for (std::int64_t b = 0; b < num_found; ++b) {
    if (!pool_->is_held(find(content, b))) ++need;
  }
  return need;
}

bool BlockManager::fits(const Content& content, std::int64_t tokens, std::int64_t most_tokens,
                        std::int64_t num_found, std::int64_t keep_free) const {
  const std::int64_t need = blocks_needed(content, tokens, most_tokens, num_found);
  if (need + keep_free > num_free()) return false;
  return options_.allocation != KvAllocation::contiguous ||
         std::any_of(holes_.begin(), holes_.end(),
                     [&](const auto& hole) { return hole.second >= need; });
}

bool BlockManager::take_region(BlockTable& table, std::int64_t units) {
  const auto hole =
      std::find_if(holes_.begin(), holes_.end(), [&](const auto& h) { return h.second >= units; });
  if (hole == holes_.end()) return false;
  const auto [first, length] = *hole;
  holes_.erase(hole);
  if (length > units) holes_.emplace(first + units, length - units);
  table.first_unit = first;
  return true;
}

bool BlockManager::admit(BlockTable& table, const Content& content, std::int64_t tokens,
                         std::int64_t most_tokens, std::int64_t num_found) {
  if (!fits(content, tokens, most_tokens, num_found)) return false;
  const std::int64_t total = blocks_reserved(tokens, most_tokens);
  if (options_.allocation == KvAllocation::contiguous && !take_region(table, total)) return false;
  if (!pool_) {
    num_free_ -= total;
    table.num_blocks = total;
    return true;
  }
  for (std::int64_t b = 0; b < num_found; ++b) {
    const Block block = find(content, b);
    pool_->share(block);
    table.blocks.push_back(block);
  }
  table.num_published = num_found;
  while (static_cast<std::int64_t>(table.blocks.size()) < total) {
    table.blocks.push_back(pool_->take());
  }
  table.num_blocks = std::max(total, num_found);
  return true;
}

bool BlockManager::extend(BlockTable& table, std::int64_t tokens) {
  const std::int64_t more = blocks_for(tokens) - table.num_blocks;
  if (more <= 0) return true;
  if (more > num_free() || options_.allocation != KvAllocation::paged) return false;
  if (pool_) {
    for (std::int64_t i = 0; i < more; ++i) table.blocks.push_back(pool_->take());
  } else {
    num_free_ -= more;
  }
  table.num_blocks += more;
  return true;
}

void BlockManager::publish_full(BlockTable& table, const Content& content, std::int64_t tokens) {
  std::int64_t full = std::min(tokens / options_.block_size, table.num_blocks);
  if (content.tokens) full = std::min(full, content.tokens->num_blocks());
  for (; table.num_published < full; ++table.num_published) {
    const Block block = table.blocks[static_cast<std::size_t>(table.num_published)];
    const std::uint64_t hash = content.block_hash(table.num_published, options_.block_size);
    if (content.tokens) {
      const auto i = static_cast<std::size_t>(block);
      if (i >= chains_.size()) chains_.resize(i + 1);
      chains_[i] = content.tokens->block(table.num_published);
    }
    if (content.is_own(table.num_published, options_.block_size)) {
      pool_->publish_own(block, hash);
    } else {
      pool_->publish(block, hash);
    }
  }
}

void BlockManager::release(BlockTable& table) {
  if (pool_) {
    pool_->release(table.blocks);
  } else {
    num_free_ += table.num_blocks;
  }
  if (table.first_unit >= 0) {
    auto hole = holes_.emplace(table.first_unit, table.num_blocks).first;
    if (const auto next = std::next(hole);
        next != holes_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole != holes_.begin()) {
      const auto before = std::prev(hole);
      if (before->first + before->second == hole->first) {
        before->second += hole->second;
        holes_.erase(hole);
      }
    }
  }
  table.blocks.clear();
  table = BlockTable{.blocks = std::move(table.blocks)};
}

std::vector<Block> BlockManager::names(const BlockTable& table) const {
  if (table.first_unit < 0) return table.blocks;
  std::vector<Block> names(static_cast<std::size_t>(table.num_blocks));
  std::iota(names.begin(), names.end(), static_cast<Block>(table.first_unit));
  return names;
}

std::vector<Block> BlockManager::take_host(std::int64_t count) {
  std::vector<Block> blocks;
  for (std::int64_t i = 0; i < count; ++i) blocks.push_back(host_.take());
  return blocks;
}

std::int64_t BlockManager::unusable_blocks(std::int64_t most_tokens) const {
  if (options_.allocation != KvAllocation::contiguous) return 0;
  std::int64_t unusable = 0;
  for (const auto& [first, length] : holes_) {
    if (length < blocks_for(most_tokens)) unusable += length;
  }
  return unusable;
}

void BlockManager::check() const {
  host_.check();
  if (pool_) return pool_->check();
  if (num_free_ < 0 || num_free_ > options_.num_blocks) {
    throw Error(ErrorCode::internal,
                fmt::format("KV cache: {} of {} blocks are free", num_free_, options_.num_blocks));
  }
  std::int64_t in_holes = 0;
  for (const auto& [first, length] : holes_) in_holes += length;
  if (options_.allocation == KvAllocation::contiguous && in_holes != num_free_) {
    throw Error(ErrorCode::internal, "KV cache: holes do not add up to what is free");
  }
}

}  // namespace tessera::serving
