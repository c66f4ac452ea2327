#include "tessera/serving/block_pool.h"

#include <fmt/format.h>

#include "tessera/core/error.h"

namespace tessera::serving {

BlockPool::BlockPool(std::int64_t num_blocks)
    : nodes_(static_cast<std::size_t>(num_blocks) + 1), first_(num_blocks), num_free_(num_blocks) {
  const auto last = static_cast<std::int32_t>(num_blocks);
  for (std::int32_t i = 0; i <= last; ++i) {
    nodes_[static_cast<std::size_t>(i)].next = i == last ? 0 : i + 1;
    nodes_[static_cast<std::size_t>(i)].previous = i == 0 ? last : i - 1;
  }
}

Block BlockPool::find(std::uint64_t hash) const { return first_.find(hash); }

void BlockPool::unlink(std::int32_t node) {
  Node& n = nodes_[static_cast<std::size_t>(node)];
  nodes_[static_cast<std::size_t>(n.previous)].next = n.next;
  nodes_[static_cast<std::size_t>(n.next)].previous = n.previous;
  --num_free_;
}

Block BlockPool::take() {
  const std::int32_t node = nodes_[0].next;
  if (node == 0) throw Error(ErrorCode::internal, "block pool: no block is free");
  unlink(node);
  const Block block = node - 1;
  forget(block);
  nodes_[index(block)].references = 1;
  return block;
}

void BlockPool::forget(Block block) {
  Node& node = nodes_[index(block)];
  if (!node.cached) return;
  node.cached = false;
  --num_cached_;
  if (node.own) return;
  const Block first = first_.find(node.hash);
  if (first != block) {
    Block before = first;
    while (nodes_[index(before)].same_hash != block) before = nodes_[index(before)].same_hash;
    nodes_[index(before)].same_hash = node.same_hash;
  } else if (node.same_hash == none) {
    first_.erase(node.hash);
  } else {
    first_.set(node.hash, node.same_hash);
  }
  node.same_hash = none;
}

void BlockPool::share(Block block) {
  Node& node = nodes_[index(block)];
  if (node.references++ == 0) unlink(static_cast<std::int32_t>(block + 1));
}

void BlockPool::link(std::int32_t node, std::int32_t before) {
  Node& n = nodes_[static_cast<std::size_t>(node)];
  Node& next = nodes_[static_cast<std::size_t>(before)];
  n.next = before;
  n.previous = next.previous;
  nodes_[static_cast<std::size_t>(n.previous)].next = node;
  next.previous = node;
  ++num_free_;
}

void BlockPool::release(const std::vector<Block>& blocks) {
  const std::int32_t front = nodes_[0].next;  // what is put in front keeps the order of the walk
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    Node& node = nodes_[index(*it)];
    if (node.references <= 0) throw Error(ErrorCode::internal, "block pool: released twice");
    if (--node.references == 0 && !node.cached) link(*it + 1, front);
  }
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    const Node& node = nodes_[index(*it)];
    if (node.references == 0 && node.cached) link(*it + 1, 0);
  }
}

void BlockPool::publish_own(Block block, std::uint64_t hash) {
  Node& node = nodes_[index(block)];
  node.hash = hash;
  node.cached = node.own = true;
  ++num_cached_;
}

void BlockPool::publish(Block block, std::uint64_t hash) {
  Node& node = nodes_[index(block)];
  node.hash = hash;
  node.cached = true;
  node.own = false;
  ++num_cached_;
  Block last = first_.find(hash);
  if (last == none) return first_.set(hash, block);
  while (nodes_[index(last)].same_hash != none) last = nodes_[index(last)].same_hash;
  nodes_[index(last)].same_hash = block;
}

void BlockPool::check() const {
  std::int64_t queued = 0, cached = 0, held = 0;
  for (std::int32_t i = nodes_[0].next; i != 0; i = nodes_[static_cast<std::size_t>(i)].next) {
    if (nodes_[static_cast<std::size_t>(i)].references != 0) {
      throw Error(ErrorCode::internal, fmt::format("block pool: free block {} is held", i - 1));
    }
    if (++queued > num_blocks()) break;
  }
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.references < 0) throw Error(ErrorCode::internal, "block pool: negative references");
    held += node.references > 0 ? 1 : 0;
    if (!node.cached) continue;
    ++cached;
    if (node.own) continue;
    Block block = find(node.hash);
    while (block != none && block != static_cast<Block>(i) - 1) {
      block = nodes_[index(block)].same_hash;
    }
    if (block == none) throw Error(ErrorCode::internal, "block pool: a cached block is not found");
  }
  if (queued != num_free_ || held + queued != num_blocks() || cached != num_cached_) {
    throw Error(ErrorCode::internal,
                fmt::format("block pool: {} free and {} held of {}, {} counted as free; {} cached, "
                            "{} counted",
                            queued, held, num_blocks(), num_free_, cached, num_cached_));
  }
}

}  // namespace tessera::serving
