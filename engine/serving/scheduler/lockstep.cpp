// Decodes of running sequences that are counted together, and how one leaves them: it is then, with
// its items in the steps under way, what single steps would have made of it.

#include "tessera/serving/lockstep.h"

#include <algorithm>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

void Lockstep::add(Slot slot, std::int64_t seat, std::int64_t computed, std::int64_t until) {
  const auto i = static_cast<std::size_t>(slot);
  if (i >= joined_.size()) {
    joined_.resize(i + 1, -1);
    until_of_.resize(i + 1);
  }
  joined_[i] = next_step_;
  until_of_[i] = until;
  until_.push({until, slot});
  last_seat_ = std::max(last_seat_, seat);
  ++size_;
  context_tokens_ += computed;
  ++takes_block_[phase(next_step_ - computed)];
}

void Lockstep::remove(Slot slot, std::int64_t computed) {
  const auto i = static_cast<std::size_t>(slot);
  --size_;
  context_tokens_ -= computed + next_step_ - joined_[i];
  --takes_block_[phase(joined_[i] - computed)];
  joined_[i] = -1;
}

Slot Lockstep::find_done() {
  while (!until_.empty() && until_.top().first <= next_step_) {
    const auto [until, slot] = until_.top();
    until_.pop();
    if (contains(slot) && until_of_[static_cast<std::size_t>(slot)] == until) return slot;
  }
  return -1;
}

void Lockstep::decided(Batch& batch) {
  batch.num_in_step = size_;
  batch.lockstep = next_step_++;
  context_tokens_ += size_;
  under_way_.push_back(&batch);
}

bool Scheduler::keep_in_step(std::int64_t least) {
  const bool may = decodes_in_step() && kv_.only_counts() && !options_.speculative;
  if (may) least_in_step_ = least;
  return may;
}

void Scheduler::decode_in_step(std::int64_t& budget) {
  for (Slot slot = lockstep_.find_done(); slot >= 0; slot = lockstep_.find_done()) leave_step(slot);
  if (lockstep_.size() == 0) return;
  if (num_running() < least_in_step_ / 2 || !stays_in_step(budget)) return leave_steps();
  const std::int64_t count = lockstep_.size(), blocks = lockstep_.num_blocks();
  kv_.take(blocks);
  table_blocks_ += blocks;
  slots_held_ += count;
  if (!decides_ahead_) pending_tokens_ -= count;
  budget -= count;
}

// All get what they would in turn: tokens suffice, or only the last in turn go without; and so do
// blocks, so that nobody is preempted.
bool Scheduler::stays_in_step(std::int64_t budget) const {
  std::int64_t tokens = lockstep_.size(), blocks = lockstep_.num_blocks();
  bool are_first = true;
  for (const Slot slot : running_) {
    const Sequence& s = sequence(slot);
    const std::int64_t more = std::min(next_tokens(s), budget);
    if (more <= 0) continue;
    are_first &= s.seat > lockstep_.last_seat();
    tokens += more;
    blocks += std::max<std::int64_t>(0, kv_.blocks_for(s.computed + more) - s.kv.num_blocks);
  }
  return lockstep_.size() <= budget && (are_first || tokens <= budget) && blocks <= kv_.num_free();
}

bool Scheduler::joins_step(const Sequence& s, std::int64_t tokens) const {
  if (least_in_step_ == 0 || num_running() < least_in_step_) return false;
  // Room for whatever else comes into this step.
  const std::int64_t most = kv_.blocks_for(options_.max_num_batched_tokens) + std::ssize(running_);
  return tokens == 1 && left(s) == 1 && s.computed >= std::max(s.prompt_tokens, s.most_computed) &&
         s.kv.num_blocks == kv_.blocks_for(s.computed + 1) && kv_.num_free() > most;
}

void Scheduler::join_step(Batch& batch, Slot slot) {
  const Sequence& s = sequence(slot);
  const std::int64_t steps = std::min(s.most_tokens() - (s.known - s.expected + s.num_under_way),
                                      model_len() - 1 - s.computed);
  lockstep_.add(slot, s.seat, s.computed, lockstep_.next_step() + steps);
  batch.joined.push_back(slot);
  ++slots_held_;
  if (!decides_ahead_) --pending_tokens_;
}

void Scheduler::join_steps(const Batch& batch) {
  if (batch.joined.empty()) return;
  std::erase_if(running_, [&](Slot slot) { return lockstep_.contains(slot); });
}

void Scheduler::complete_in_step(const Batch& batch) {
  if (batch.lockstep < 0) return;
  lockstep_.completed();
  if (!decides_ahead_) pending_tokens_ += batch.num_in_step;
}

void Scheduler::bring_up(Slot slot, Sequence& s) const {
  if (!lockstep_.contains(slot)) return;
  const std::int64_t decided = lockstep_.next_step() - lockstep_.joined(slot);
  const auto under_way = static_cast<std::int32_t>(decided - num_completed_in_step(slot));
  s.computed += decided;
  s.known += decides_ahead_ ? decided : decided - under_way;
  if (decides_ahead_) s.expected += under_way;
  s.num_under_way += under_way;
  s.kv.num_blocks = kv_.blocks_for(s.computed);
}

void Scheduler::leave(Slot slot) {
  Sequence& s = at(slot);
  left_step_.push_back({slot, num_completed_in_step(slot)});
  lockstep_.for_each_under_way(slot, [&](Batch& batch, std::int64_t steps) {
    batch.items.push_back({s.request, 1, s.computed + steps, 0, slot, true, true});
    --batch.num_in_step;
  });
  const std::int64_t computed = s.computed;
  bring_up(slot, s);
  lockstep_.remove(slot, computed);
  running_.push_back(slot);
}

void Scheduler::leave_step(Slot slot) {
  if (!lockstep_.contains(slot)) return;
  leave(slot);
  sort_by_seat();
}

void Scheduler::leave_steps() {
  if (lockstep_.size() == 0) return;
  for (Slot slot = 0; slot < std::ssize(sequences_); ++slot) {
    if (lockstep_.contains(slot)) leave(slot);
  }
  sort_by_seat();
}

// As single steps would have left them; who is not here any more brings nothing wherever it is.
void Scheduler::sort_by_seat() {
  std::sort(running_.begin(), running_.end(),
            [&](Slot a, Slot b) { return sequence(a).seat < sequence(b).seat; });
  const auto key = [&](const BatchItem& item) {
    const Sequence& s = sequence(item.slot);
    return s.request == item.request ? s.seat : -1;
  };
  for (Batch* batch : lockstep_.under_way()) {
    std::sort(batch->items.begin(), batch->items.end(),
              [&](const BatchItem& a, const BatchItem& b) { return key(a) < key(b); });
  }
}

}  // namespace tessera::serving
