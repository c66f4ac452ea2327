// What holds after every decision, counted anew.

#include <fmt/format.h>

#include "tessera/core/error.h"
#include "tessera/serving/scheduler.h"

namespace tessera::serving {

void Scheduler::check(const Batch& batch) const {
  const auto broken = [](const std::string& what) { throw Error(ErrorCode::internal, what); };
  kv_.check();
  std::int64_t held = 0, blocks = 0, seats = 0, pending = 0;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].request < 0) continue;
    Sequence s = sequences_[i];
    bring_up(static_cast<Slot>(i), s);
    if (s.state != SequenceState::swapped) held += s.computed;
    blocks += s.kv.num_blocks;
    pending += std::max<std::int64_t>(0, s.known - s.computed);
    seats += s.state == SequenceState::running ? 1 : 0;
    if (s.computed < 0 ||
        s.computed > s.known + (options_.speculative ? options_.speculative->num_tokens : 0)) {
      broken(fmt::format("request {}: {} tokens computed of {}", s.request, s.computed, s.known));
    }
    if (s.kv.num_blocks * kv_.block_size() < s.computed && s.state != SequenceState::swapped) {
      broken(fmt::format("request {}: {} tokens in {} blocks of {}", s.request, s.computed,
                         s.kv.num_blocks, kv_.block_size()));
    }
  }
  if (pending != pending_tokens_) {
    broken(fmt::format("{} tokens are pending, {} were counted", pending, pending_tokens_));
  }
  if (held != slots_held_ || blocks != table_blocks_) {
    broken(fmt::format("{} slots and {} blocks are held, {} and {} were counted", held, blocks,
                       slots_held_, table_blocks_));
  }
  if (!kv_.caches_prefixes() && blocks != kv_.num_blocks() - kv_.num_free()) {
    broken(fmt::format("{} blocks are held, {} of {} are free", blocks, kv_.num_free(),
                       kv_.num_blocks()));
  }
  if (seats != num_running()) broken("seats do not add up");
  if (seats > options_.max_num_seqs) {
    broken(fmt::format("{} requests run on {} seats", seats, options_.max_num_seqs));
  }
  check_items(batch);
}

void Scheduler::check_items(const Batch& batch) const {
  const auto broken = [](const BatchItem& item, const char* what) {
    throw Error(ErrorCode::internal, fmt::format("request {}: {}", item.request, what));
  };
  std::vector<bool> seen(sequences_.size());
  for (const BatchItem& item : batch.items) {
    const Sequence& s = sequence(item.slot);
    if (item.tokens < 1) broken(item, "an item without tokens");
    if (s.request != item.request || s.state != SequenceState::running)
      broken(item, "does not run");
    if (seen[static_cast<std::size_t>(item.slot)]) broken(item, "is in the step twice");
    seen[static_cast<std::size_t>(item.slot)] = true;
  }
}

}  // namespace tessera::serving
