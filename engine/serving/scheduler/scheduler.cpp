// What all schedulers have in common: sequences, their blocks, and the results of steps.

#include "tessera/serving/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tessera/core/error.h"

namespace tessera::serving {

void Batch::clear() {
  items.clear();
  admitted.clear();
  preempted.clear();
  rejected.clear();
  swapped_blocks = 0;
  limit = Limit::none;
  load.clear();
  decide_again = kNever;
}

Scheduler::Scheduler(const EngineOptions& options, const KvCache::Options& kv)
    : options_(options), kv_(kv), waiting_(options.policy), drafts_(options.speculative) {}

std::int64_t Scheduler::model_len() const {
  return options_.max_model_len > 0 ? options_.max_model_len
                                    : std::numeric_limits<std::int64_t>::max() / 4;
}

std::string Scheduler::why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
  if (prompt_tokens >= model_len()) {
    return fmt::format(
        "a prompt of {} tokens leaves no token of the context of {} "
        "(max_model_len)",
        prompt_tokens, model_len());
  }
  const std::int64_t most = std::min(prompt_tokens + max_tokens, model_len());
  const std::int64_t need = kv_.blocks_reserved(most, most);
  if (need > kv_.num_blocks()) {
    return fmt::format(
        "{} prompt and {} output tokens take {} blocks of {} tokens, the KV cache "
        "has {}",
        prompt_tokens, max_tokens, need, kv_.block_size(), kv_.num_blocks());
  }
  return {};
}

Slot Scheduler::add(Sequence sequence) {
  Slot slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<Slot>(sequences_.size());
    sequences_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  sequence.order = next_order_++;
  sequence.state = SequenceState::waiting;
  sequence.content.own = static_cast<std::uint64_t>(sequence.request);
  sequence.content.prompt_tokens = sequence.prompt_tokens;
  sequence.known = std::max(sequence.known, sequence.prompt_tokens);
  pending_tokens_ += sequence.known - sequence.computed;
  ++num_live_;
  at(slot) = std::move(sequence);
  const Sequence& s = at(slot);
  waiting_.push_back({s.priority, s.arrival, s.order, slot});
  return slot;
}

bool Scheduler::add_loading(Sequence sequence, Slot& slot) {
  KvTable table;
  sequence.content.own = static_cast<std::uint64_t>(sequence.request);
  sequence.content.prompt_tokens = sequence.prompt_tokens;
  const std::int64_t computed = sequence.computed;
  if (!kv_.admit(table, sequence.content, computed, sequence.most_tokens(), 0)) return false;
  kv_.publish(table, sequence.content, computed);
  slot = add(std::move(sequence));
  waiting_.remove(slot);
  Sequence& s = at(slot);
  s.kv = std::move(table);
  s.state = SequenceState::loading;
  slots_held_ += computed;
  table_blocks_ += s.kv.num_blocks;
  return true;
}

void Scheduler::loaded(Slot slot) {
  Sequence& s = at(slot);
  s.state = SequenceState::waiting;
  waiting_.push_back({s.priority, s.arrival, s.order, slot});
}

void Scheduler::decide(Ticks now, Batch& batch) {
  batch.clear();
  schedule(now, batch);
  StepLoad& load = batch.load;
  for (const BatchItem& item : batch.items) {
    const Sequence& s = at(item.slot);
    ++load.num_requests;
    load.tokens += item.tokens;
    load.context_tokens += item.context;
    if (item.samples) load.num_sampled += 1 + item.drafts;
    if (drafts_ && item.samples) ++load.num_drafted;
    if (item.tokens - item.drafts == 1 && item.context >= s.prompt_tokens) {
      ++load.num_decodes;
      load.decode_tokens += item.tokens;
      load.decode_context_tokens += item.context;
    } else {
      load.chunks.push_back({item.tokens, item.context});
    }
  }
#ifndef NDEBUG
  check(batch);
#endif
}

void Scheduler::put(Batch& batch, Slot slot, std::int64_t tokens) {
  Sequence& s = at(slot);
  const std::int64_t end = s.computed + tokens;
  const std::int64_t drafts = std::max<std::int64_t>(0, end - s.known);
  batch.items.push_back({slot, s.request, tokens, s.computed, drafts, end >= s.known});
  const std::int64_t again = std::min(end, s.most_computed) - s.computed;
  if (again > 0) {
    s.recomputed_tokens += again;
    counts_.recomputed_tokens += again;
  }
  s.computed = end;
  s.drafts = 0;
  pending_tokens_ -= tokens - drafts;
  slots_held_ += tokens;
  // From now on, before the step has run: a later request of the same step may find them.
  kv_.publish(s.kv, s.content, std::min(end, s.known));
}

void Scheduler::take_back(Batch& batch, std::size_t item) {
  const BatchItem taken = batch.items[item];
  Sequence& s = at(taken.slot);
  s.computed -= taken.tokens;
  s.drafts = taken.drafts;
  pending_tokens_ += taken.tokens - taken.drafts;
  slots_held_ -= taken.tokens;
  batch.items.erase(batch.items.begin() + static_cast<std::ptrdiff_t>(item));
}

std::int64_t Scheduler::find_prefix(const Sequence& s) const {
  return kv_.find_prefix(s.content, s.known - 1);
}

bool Scheduler::admit(Batch& batch, std::int64_t tokens, std::int64_t num_found) {
  const Slot slot = waiting_.front();
  Sequence& s = at(slot);
  if (s.kv.num_blocks == 0 && !kv_.admit(s.kv, s.content, tokens, s.most_tokens(), num_found)) {
    return false;
  }
  table_blocks_ += s.kv.num_blocks;
  waiting_.pop_front();
  s.state = SequenceState::running;
  const std::int64_t found = num_found * kv_.block_size();
  if (!s.was_admitted) {
    s.was_admitted = true;
    s.cached_tokens = found;
    if (kv_.caches_prefixes()) {
      counts_.prefix_queries += s.known;
      counts_.prefix_hits += found;
    }
  }
  s.computed += found;
  pending_tokens_ -= found;
  slots_held_ += found;
  running_.push_back(slot);
  batch.admitted.push_back(slot);
  return true;
}

bool Scheduler::extend(Sequence& s, std::int64_t tokens) {
  table_blocks_ -= s.kv.num_blocks;
  const bool done = kv_.extend(s.kv, tokens);
  table_blocks_ += s.kv.num_blocks;
  return done;
}

void Scheduler::release_blocks(Sequence& s) {
  table_blocks_ -= s.kv.num_blocks;
  slots_held_ -= s.computed;
  kv_.release(s.kv);
}

void Scheduler::preempt(Batch& batch, Slot slot) {
  Sequence& s = at(slot);
  release_blocks(s);
  pending_tokens_ += s.computed;
  s.most_computed = std::max(s.most_computed, std::min(s.computed, s.known));
  s.computed = 0;
  s.drafts = 0;
  s.state = SequenceState::waiting;
  ++s.num_preemptions;
  ++counts_.num_preemptions;
  batch.preempted.push_back(s.request);
  waiting_.push_front({s.priority, s.arrival, s.order, slot});
}

void Scheduler::remove_running(Slot slot) {
  running_.erase(std::find(running_.begin(), running_.end(), slot));
}

void Scheduler::free_slot(Slot slot) {
  Sequence& s = at(slot);
  pending_tokens_ -= s.known - s.computed;
  s.request = -1;
  free_slots_.push_back(slot);
  --num_live_;
}

void Scheduler::reject(Batch& batch, Slot slot) {
  batch.rejected.push_back(at(slot).request);
  free_slot(slot);
}

void Scheduler::complete(const Batch& batch, const std::vector<Generated>& generated) {
  bool any_ended = false;
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    const BatchItem& item = batch.items[i];
    if (!item.samples) continue;
    const Generated& g = generated[i];
    Sequence& s = at(item.slot);
    const std::int64_t refused = item.drafts - g.accepted;
    if (refused > 0 && s.computed > 0) {
      s.computed -= refused;
      slots_held_ -= refused;
    }
    s.known += g.tokens;
    pending_tokens_ += g.tokens;
    if (!g.ended) {
      if (drafts_ && s.state == SequenceState::running) s.drafts = options_.speculative->num_tokens;
      continue;
    }
    const bool was_running = s.state == SequenceState::running;
    if (!was_running) waiting_.remove(item.slot);  // preempted while its step was under way
    any_ended |= was_running;
    s.state = SequenceState::held;
    if (g.hold) continue;
    release_blocks(s);
    free_slot(item.slot);
  }
  if (any_ended) {
    std::erase_if(running_, [&](Slot slot) { return at(slot).state != SequenceState::running; });
  }
  completed(batch);
}

void Scheduler::let_go(Slot slot) {
  release_blocks(at(slot));
  free_slot(slot);
}

std::int64_t Scheduler::repeats(const Batch&, std::int64_t) const { return 0; }

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

void Scheduler::repeat(Batch& batch, std::int64_t steps) {
  if (steps <= 0) return;
  // Blocks are taken step by step, in each by the order of the batch, as single steps would.
  taken_.clear();
  for (std::size_t i = 0; i < batch.items.size(); ++i) {
    Sequence& s = at(batch.items[i].slot);
    if (kv_.caches_prefixes()) {
      std::int64_t at_step = s.kv.num_blocks * kv_.block_size() - s.computed + 1;
      for (; at_step <= steps; at_step += kv_.block_size()) taken_.emplace_back(at_step, i);
    } else {
      extend(s, s.computed + steps);
    }
  }
  std::sort(taken_.begin(), taken_.end());
  for (const auto& [step, i] : taken_) {
    Sequence& s = at(batch.items[i].slot);
    extend(s, s.computed + step);
  }
  for (BatchItem& item : batch.items) {
    Sequence& s = at(item.slot);
    s.known += steps;
    s.computed += steps;
    item.context += steps;
    kv_.publish(s.kv, s.content, s.computed);
  }
  const auto count = static_cast<std::int64_t>(batch.items.size());
  slots_held_ += steps * count;
  batch.load.context_tokens += steps * count;
  batch.load.decode_context_tokens += steps * count;
  batch.admitted.clear();
  batch.preempted.clear();
}

std::int64_t Scheduler::slots_held() const {
  return slots_reserved() - (table_blocks_ * kv_.block_size() - slots_held_);
}

std::int64_t Scheduler::slots_unusable() const {
  if (waiting_.empty()) return 0;
  return kv_.unusable_blocks(sequence(waiting_.front()).most_tokens()) * kv_.block_size();
}

void Scheduler::check(const Batch& batch) const {
  const auto broken = [](const std::string& what) { throw Error(ErrorCode::internal, what); };
  kv_.check();
  std::int64_t held = 0, blocks = 0, seats = 0;
  for (const Sequence& s : sequences_) {
    if (s.request < 0) continue;
    held += s.computed;
    blocks += s.kv.num_blocks;
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
  if (held != slots_held_ || blocks != table_blocks_) {
    broken(fmt::format("{} slots and {} blocks are held, {} and {} were counted", held, blocks,
                       slots_held_, table_blocks_));
  }
  if (!kv_.caches_prefixes() && blocks != kv_.num_blocks() - kv_.num_free()) {
    broken(fmt::format("{} blocks are held, {} of {} are free", blocks, kv_.num_free(),
                       kv_.num_blocks()));
  }
  if (seats != static_cast<std::int64_t>(running_.size())) broken("seats do not add up");
  for (const BatchItem& item : batch.items) {
    if (item.tokens < 1) broken(fmt::format("request {}: an item without tokens", item.request));
  }
}

}  // namespace tessera::serving
