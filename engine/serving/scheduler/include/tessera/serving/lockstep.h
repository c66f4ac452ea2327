#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tessera/serving/wait_queue.h"

namespace tessera::serving {

struct Batch;

/// Which running sequences decode a token in every step, and what they take together, so that a
/// step need not look at each of hundreds: a simulator's shortcut. Steps are numbered from 0, of
/// those that have any such sequence.
class Lockstep {
 public:
  explicit Lockstep(std::int64_t block_size) : takes_block_(static_cast<std::size_t>(block_size)) {}

  std::int64_t size() const { return size_; }
  bool contains(Slot slot) const {
    return static_cast<std::size_t>(slot) < joined_.size() && joined(slot) >= 0;
  }
  /// The first step that it is in; -1: it is none of these (any more).
  std::int64_t joined(Slot slot) const { return joined_[static_cast<std::size_t>(slot)]; }
  std::int64_t next_step() const { return next_step_; }
  std::int64_t num_completed() const { return next_step_ - std::ssize(under_way_); }
  /// In the KV caches of all before the next step.
  std::int64_t context_tokens() const { return context_tokens_; }
  /// Blocks that all need for the next step; each has what it has computed in as few as hold that.
  std::int64_t num_blocks() const { return takes_block_[phase(next_step_)]; }

  /// The last that any had.
  std::int64_t last_seat() const { return last_seat_; }

  /// From the next step on, with so many tokens computed before, until the step `until`.
  void add(Slot slot, std::int64_t seat, std::int64_t computed, std::int64_t until);
  void remove(Slot slot, std::int64_t computed);
  /// One that is not in the next step any more; -1: none.
  Slot find_done();
  /// The next step is decided: it is under way until `completed`.
  void decided(Batch& batch);
  void completed() { under_way_.pop_front(); }
  const std::deque<Batch*>& under_way() const { return under_way_; }
  /// Calls visit(batch, steps) for the steps under way that it is in, so many after its first.
  template <class Visit>
  void for_each_under_way(Slot slot, Visit&& visit) const {
    std::int64_t step = num_completed();
    for (Batch* batch : under_way_) {
      if (step >= joined(slot)) visit(*batch, step - joined(slot));
      ++step;
    }
  }

 private:
  /// A sequence that has computed so many tokens before a step takes a block for it where both are
  /// of the same remainder.
  std::size_t phase(std::int64_t step) const {
    const auto size = std::ssize(takes_block_);
    return static_cast<std::size_t>((step % size + size) % size);
  }

  std::vector<std::int64_t> joined_;       ///< [slot]
  std::vector<std::int64_t> takes_block_;  ///< [step, modulo the block size] sequences
  /// Last steps with slots, of those that have left too.
  std::priority_queue<std::pair<std::int64_t, Slot>, std::vector<std::pair<std::int64_t, Slot>>,
                      std::greater<>>
      until_;
  std::vector<std::int64_t> until_of_;  ///< [slot]
  std::int64_t size_ = 0, context_tokens_ = 0, next_step_ = 0, last_seat_ = -1;
  std::deque<Batch*> under_way_;
};

}  // namespace tessera::serving
