#include "tessera/serving/block_pool.h"

#include <fmt/format.h>

#include "tessera/core/error.h"

namespace tessera::serving {

BlockPool::BlockPool(std::int64_t num_blocks)
    : num_blocks_(num_blocks), nodes_(kNumMarks), num_free_(num_blocks) {
  if (num_blocks > 0) link(kUntouched, kRing);
}

Block BlockPool::find(std::uint64_t hash) const { return first_.find(hash); }

void BlockPool::unlink(std::int32_t node) {
  Node& n = nodes_[static_cast<std::size_t>(node)];
  nodes_[static_cast<std::size_t>(n.previous)].next = n.next;
  nodes_[static_cast<std::size_t>(n.next)].previous = n.previous;
}

Block BlockPool::touch() {
  const auto block = static_cast<Block>(num_touched());
  nodes_.emplace_back();
  if (num_touched() == num_blocks_) unlink(kUntouched);
  return block;
}

Block BlockPool::take() {
  const std::int32_t node = nodes_[kRing].next;
  if (node == kRing) throw Error(ErrorCode::internal, "block pool: no block is free");
  Block block = node - kNumMarks;
  if (node == kUntouched) {
    block = touch();
  } else {
    unlink(node);
    forget(block);
  }
  --num_free_;
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
  if (node.references++ > 0) return;
  unlink(node_of(block));
  --num_free_;
}

void BlockPool::link(std::int32_t node, std::int32_t before) {
  Node& n = nodes_[static_cast<std::size_t>(node)];
  Node& next = nodes_[static_cast<std::size_t>(before)];
  n.next = before;
  n.previous = next.previous;
  nodes_[static_cast<std::size_t>(n.previous)].next = node;
  next.previous = node;
}

void BlockPool::release(const std::vector<Block>& blocks) {
  const std::int32_t front =
      nodes_[kRing].next;  // what is put in front keeps the order of the walk
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    Node& node = nodes_[index(*it)];
    if (node.references <= 0) throw Error(ErrorCode::internal, "block pool: released twice");
    if (--node.references > 0) continue;
    ++num_free_;
    if (!node.cached) link(node_of(*it), front);
  }
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) {
    const Node& node = nodes_[index(*it)];
    if (node.references == 0 && node.cached) link(node_of(*it), kRing);
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

void BlockPool::forget_all() {
  for (Node& node : nodes_) {
    node.cached = node.own = false;
    node.same_hash = none;
  }
  first_.clear();
  num_cached_ = 0;
}

void BlockPool::check() const {
  std::int64_t queued = 0, cached = 0, held = 0;
  for (std::int32_t i = nodes_[kRing].next; i != kRing;
       i = nodes_[static_cast<std::size_t>(i)].next) {
    if (nodes_[static_cast<std::size_t>(i)].references != 0) {
      throw Error(ErrorCode::internal,
                  fmt::format("block pool: free block {} is held", i - kNumMarks));
    }
    queued += i == kUntouched ? num_blocks_ - num_touched() : 1;
    if (queued > num_blocks_) break;
  }
  for (std::size_t i = kNumMarks; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    if (node.references < 0) throw Error(ErrorCode::internal, "block pool: negative references");
    held += node.references > 0 ? 1 : 0;
    if (!node.cached) continue;
    ++cached;
    if (node.own) continue;
    Block block = find(node.hash);
    while (block != none && block != static_cast<Block>(i) - kNumMarks) {
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
