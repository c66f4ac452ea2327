// Steps that are decided alike, taken at once.

#include "tessera/serving/stretches.h"

#include <algorithm>
#include <limits>

namespace tessera::serving {

bool Scheduler::is_all_decodes(const Batch& batch) const {
  return !options_.speculative && batch.preempted.empty() && batch.load.chunks.empty() &&
         batch.moves.empty() && batch.items.size() == running_.size() &&
         batch.load.num_sampled == std::ssize(batch.items);  // one token of a longer piece does not
}

bool Scheduler::queue_stays(const Batch& batch) const {
  return waiting_.empty() || batch.limit == Limit::seats ||
         (batch.limit == Limit::blocks && !kv_.caches_prefixes());
}

std::int64_t Scheduler::decode_repeats(const Batch& batch, std::int64_t most) const {
  const auto blocks_short = [&](std::int64_t steps) {
    std::int64_t need = 0;
    for (const BatchItem& item : batch.items) {
      const Sequence& s = sequence(item.slot);
      need += std::max<std::int64_t>(0, kv_.blocks_for(s.computed + steps) - s.kv.num_blocks);
      if (need > kv_.num_free()) return true;
    }
    return false;
  };
  std::int64_t room = std::numeric_limits<std::int64_t>::max();
  for (const BatchItem& item : batch.items) {
    room = std::min(room, model_len() - 1 - sequence(item.slot).computed);
  }
  std::int64_t high = std::min(most, room), low = 0;
  if (high <= 0) return 0;
  if (!blocks_short(high)) return high;
  while (low + 1 < high) {  // low steps fit, high do not
    const std::int64_t middle = low + (high - low) / 2;
    (blocks_short(middle) ? high : low) = middle;
  }
  return low;
}

void Stretches::repeat(Batch& batch, std::int64_t steps) {
  if (steps <= 0) return;
  Scheduler& scheduler = scheduler_;
  BlockManager& kv = scheduler.kv_;
  // Blocks are taken and published step by step, in each by the order of the batch, as single steps
  // would: which block a hash finds first, and which is evicted first, depends on it.
  // Decided ahead, a step's token is there when the step after is decided, and published then.
  events_.clear();
  const std::int64_t size = kv.block_size(), ahead = scheduler.decides_ahead_ ? 1 : 0;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    Sequence& s = scheduler.at(batch.items[i].slot);
    if (!kv.caches_prefixes()) {
      scheduler.extend(s, s.computed + steps);
      continue;
    }
    std::int64_t full = size - s.computed % size;  // the step whose token fills a block
    if (s.computed % size == 0) events_.emplace_back(1, i);
    for (; full <= steps; full += size) {
      if (ahead == 0) events_.emplace_back(full, i);
      if (full < steps) events_.emplace_back(full + 1, i);
    }
  }
  std::sort(events_.begin(), events_.end());
  for (const auto& [step, i] : events_) {
    Sequence& s = scheduler.at(batch.items[i].slot);
    scheduler.extend(s, s.computed + step);
    kv.publish(s.kv, s.content, s.computed + step - ahead);
  }
  for (BatchItem& item : batch.items) {
    Sequence& s = scheduler.at(item.slot);
    s.known += steps;
    s.computed += steps;
    item.context += steps;
  }
  StepLoad& load = batch.load;
  scheduler.slots_held_ += steps * std::ssize(batch.items);
  load.context_tokens += steps * load.num_decodes;  // padding grows along
  load.decode_context_tokens += steps * load.num_decodes;
  batch.admitted.clear();
  batch.preempted.clear();
  scheduler.repeated(batch, steps);
}

void Stretches::follow(Batch& batch) {
  repeat(batch, 1);
  for (const BatchItem& item : batch.items) {
    Sequence& s = scheduler_.at(item.slot);
    ++s.num_under_way;
    ++s.expected;
  }
}

}  // namespace tessera::serving
