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
  moves.clear();
  limit = Limit::none;
  load.clear();
  num_in_step = 0;
  joined.clear();
  lockstep = -1;
  decide_again = kNever;
}

Scheduler::Scheduler(const EngineOptions& options, const BlockManager::Options& kv)
    : options_(options),
      kv_(kv),
      waiting_(options.policy),
      decides_ahead_(options.async_scheduling.value_or(false)),
      model_len_(options.max_model_len > 0 ? options.max_model_len
                                           : std::numeric_limits<std::int64_t>::max() / 4),
      lockstep_(kv.block_size) {
  const auto& speculative = options.speculative;
  if (speculative && speculative->method != DraftMethod::ngram) {
    lookahead_ = speculative->num_tokens;
  }
}

std::string Scheduler::why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
  return why_no_room(prompt_tokens, max_tokens, 0);
}

std::string Scheduler::why_no_room(std::int64_t prompt_tokens, std::int64_t max_tokens,
                                   std::int64_t keep_free) const {
  if (prompt_tokens >= model_len()) {
    return fmt::format(
        "a prompt of {} tokens leaves no token of the context of {} "
        "(max_model_len)",
        prompt_tokens, model_len());
  }
  // The last token is never computed, so that it takes no slot of a block.
  std::int64_t computed = prompt_tokens + max_tokens - 1;
  if (options_.speculative && kv_.is_paged()) {
    computed += options_.speculative->num_tokens + lookahead_;
    if (decides_ahead_) computed += 1 + options_.speculative->num_tokens;  // a step in vain
  }
  const std::int64_t most = std::min(prompt_tokens + max_tokens, model_len());
  const std::int64_t need = kv_.blocks_reserved(std::min(computed, model_len()), most);
  if (need + keep_free > kv_.num_blocks()) {
    return fmt::format(
        "{} prompt and {} output tokens take {} blocks of {} tokens, the KV cache has {}{}",
        prompt_tokens, max_tokens, need, kv_.block_size(), kv_.num_blocks(),
        keep_free > 0 ? fmt::format(", of which {} are kept free (watermark)", keep_free) : "");
  }
  return {};
}

std::string Scheduler::why_no_step(std::int64_t prompt_tokens, std::int64_t max_tokens) const {
  // Whose memory is set aside as a whole is never computed once more.
  if (!kv_.is_paged() && prompt_tokens <= options_.max_num_batched_tokens) return {};
  const std::int64_t most = std::min(prompt_tokens + max_tokens, model_len());
  if (most <= options_.max_num_batched_tokens) return {};
  return fmt::format(
      "{} prompt and {} output tokens, should they be computed once more, do not fit into one step "
      "of {} (max_num_batched_tokens), and enable_chunked_prefill is off",
      prompt_tokens, most - prompt_tokens, options_.max_num_batched_tokens);
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
  // The context ends it too, so that no memory is set aside beyond it.
  sequence.max_tokens = std::min(sequence.max_tokens,
                                 std::max<std::int64_t>(1, model_len() - sequence.prompt_tokens));
  sequence.known = std::max(sequence.known, sequence.prompt_tokens);
  pending_tokens_ += sequence.known - sequence.computed;
  ++num_live_;
  at(slot) = std::move(sequence);
  const Sequence& s = at(slot);
  waiting_.push_back({s.priority, s.arrival, s.order, slot});
  added(slot);
  return slot;
}

// Who was preempted is before it in the queue for blocks. With its first step's slot, lest such
// sequences fill the memory and none of them can go on.
bool Scheduler::may_load(const Sequence& s) const {
  if (!waiting_.empty() && sequence(waiting_.front()).kv.num_blocks == 0) return false;
  return kv_.fits(s.content, std::max(s.computed, s.known), s.most_tokens(), 0);
}

bool Scheduler::add_loading(Sequence sequence, Slot& slot) {
  if (!may_load(sequence)) return false;
  BlockTable table;
  sequence.content.own = static_cast<std::uint64_t>(sequence.request);
  sequence.content.prompt_tokens = sequence.prompt_tokens;
  const std::int64_t computed = sequence.computed;
  const std::int64_t tokens = std::max(computed, sequence.known);
  if (!kv_.admit(table, sequence.content, tokens, sequence.most_tokens(), 0)) return false;
  slot = add(std::move(sequence));
  waiting_.remove(slot);
  Sequence& s = at(slot);
  s.kv = std::move(table);
  s.state = SequenceState::loading;
  slots_held_ += computed;
  table_blocks_ += s.kv.num_blocks;
  return true;
}

// From now on others may find what its blocks hold.
void Scheduler::loaded(Slot slot) {
  Sequence& s = at(slot);
  kv_.publish(s.kv, s.content, s.computed);
  s.state = SequenceState::waiting;
  waiting_.push_back({s.priority, s.arrival, s.order, slot});
}

void Scheduler::decide(Ticks now, Batch& batch) {
  batch.clear();
  schedule(now, batch);
  const bool nothing = batch.items.empty() && batch.preempted.empty() && lockstep_.size() == 0;
  if (nothing) end_standstill(batch);
  load(batch);
  if (lockstep_.size() > 0) lockstep_.decided(batch);
  pad(batch.load);
#ifndef NDEBUG
  check(batch);
#endif
}

// Nobody can go on, or begin, for want of blocks that others hold who wait, having come from
// another pool: the last of these gives them back, and is computed here.
void Scheduler::end_standstill(Batch& batch) {
  if (waiting_.empty() || batch.decide_again != kNever) return;
  if (running_.empty() && batch.limit != Limit::blocks) return;
  const bool runs = std::any_of(running_.begin(), running_.end(),
                                [&](Slot slot) { return sequence(slot).is_under_way(); });
  if (runs) return;
  Slot last = -1;
  waiting_.for_each([&](Slot slot) {
    if (sequence(slot).kv.num_blocks > 0) last = slot;
  });
  if (last < 0) return;
  Sequence& s = at(last);
  give_back(s);
  batch.preempted.push_back(s.request);
}

// Sums in registers: a step has hundreds of items.
void Scheduler::load(Batch& batch) const {
  const std::int64_t in_step = lockstep_.size();
  std::int64_t tokens = in_step, context = lockstep_.context_tokens(), sampled = in_step;
  std::int64_t decodes = in_step, decode_tokens = in_step, decode_context = context, samples = 0;
  for (const BatchItem& item : batch.items) {
    tokens += item.tokens;
    context += item.context;
    samples += item.samples ? 1 : 0;
    sampled += item.samples ? 1 + item.drafts : 0;
    decodes += item.decodes ? 1 : 0;
    decode_tokens += item.decodes ? item.tokens : 0;
    decode_context += item.decodes ? item.context : 0;
    if (!item.decodes) batch.load.chunks.push_back({item.tokens, item.context});
  }
  StepLoad& load = batch.load;
  load.num_requests = in_step + std::ssize(batch.items);
  load.tokens = tokens;
  load.context_tokens = context;
  load.num_sampled = sampled;
  load.num_drafted = options_.speculative ? samples : 0;
  load.num_decodes = decodes;
  load.decode_tokens = decode_tokens;
  load.decode_context_tokens = decode_context;
}

void Scheduler::take_back(Batch& batch, std::size_t item) {
  const BatchItem taken = batch.items[item];
  Sequence& s = at(taken.slot);
  s.computed -= taken.tokens;
  if (taken.samples) {
    --s.num_under_way;
    if (decides_ahead_) {
      s.known -= 1 + taken.drafts;
      s.expected -= static_cast<std::int32_t>(1 + taken.drafts);
      --pending_tokens_;
    }
  }
  s.drafts = static_cast<std::int32_t>(taken.drafts);
  pending_tokens_ += taken.tokens - taken.drafts;
  slots_held_ -= taken.tokens;
  batch.items.erase(batch.items.begin() + static_cast<std::ptrdiff_t>(item));
}

// EAGLE reads the hidden state before each token, which the last found block would be without.
std::int64_t Scheduler::find_prefix(const Sequence& s) const {
  if (s.computed > 0) return 0;
  const std::int64_t found = kv_.find_prefix(s.content, s.known - 1);
  const auto& speculative = options_.speculative;
  const bool eagle = speculative && speculative->method == DraftMethod::eagle;
  return eagle ? std::max<std::int64_t>(0, found - 1) : found;
}

bool Scheduler::fits_whole(const Sequence& s, std::int64_t num_found,
                           std::int64_t keep_free) const {
  if (s.kv.num_blocks > 0) return true;
  return kv_.fits(s.content, std::min(s.known, model_len()), s.most_tokens(), num_found, keep_free);
}

std::int64_t Scheduler::room_ahead(const Sequence& s, std::int64_t end) const {
  const std::int64_t most = kv_.is_paged() ? model_len() : std::min(model_len(), s.most_tokens());
  return std::max(end, std::min(end + lookahead_, most));
}

bool Scheduler::take_blocks(Sequence& s, std::int64_t tokens, std::int64_t num_found) {
  if (!kv_.admit(s.kv, s.content, tokens, s.most_tokens(), num_found)) return false;
  table_blocks_ += s.kv.num_blocks;
  return true;
}

bool Scheduler::admit(Batch& batch, Slot slot, std::int64_t tokens, std::int64_t num_found) {
  Sequence& s = at(slot);
  const bool has_blocks = s.kv.num_blocks > 0;  // its cache came from another pool
  if (!(has_blocks ? extend(s, tokens) : take_blocks(s, tokens, num_found))) return false;
  waiting_.remove(slot);
  const std::int64_t found = num_found * kv_.block_size();
  if (!s.was_admitted) {
    s.was_admitted = true;
    s.cached_tokens = found;
    if (kv_.caches_prefixes() && !has_blocks) {
      counts_.prefix_queries += s.known;
      counts_.prefix_hits += found;
    }
  }
  s.computed += found;
  pending_tokens_ -= found;
  if (has_blocks) slots_held_ -= s.computed;  // they count already
  take_seat(batch, slot);
  return true;
}

void Scheduler::take_seat(Batch& batch, Slot slot) {
  Sequence& s = at(slot);
  s.state = SequenceState::running;
  s.seat = next_seat_++;
  slots_held_ += s.computed;
  running_.push_back(slot);
  batch.admitted.push_back(slot);
}

bool Scheduler::take_more(Sequence& s, std::int64_t tokens) {
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

// What it had computed is computed again.
void Scheduler::give_back(Sequence& s) {
  kv_.remember(s.kv, s.content);
  release_blocks(s);
  pending_tokens_ += std::min(s.computed, s.known);
  s.most_computed = std::max(s.most_computed, std::min(s.computed, s.known));
  s.computed = 0;
  s.drafts = 0;
  s.was_preempted = true;
  ++s.num_preemptions;
  ++counts_.num_preemptions;
}

void Scheduler::preempt(Batch& batch, Slot slot, bool in_front) {
  Sequence& s = at(slot);
  remove_running(slot);
  give_back(s);
  s.state = SequenceState::waiting;
  batch.preempted.push_back(s.request);
  const WaitQueue::Key key{s.priority, s.arrival, s.order, slot};
  in_front ? waiting_.push_front(key) : waiting_.push_back(key);
}

void Scheduler::give_up(Batch& batch, Slot slot) { preempt(batch, slot); }

bool Scheduler::make_room(Batch& batch, std::size_t position, std::int64_t end) {
  const Slot slot = running_[position];
  while (!extend(at(slot), end)) {
    std::size_t victim = running_.size() - 1;
    while (victim > position && left(at(running_[victim])) <= 0) --victim;
    give_up(batch, running_[victim]);
    if (victim == position) return false;
  }
  return true;
}

bool Scheduler::comes_before(Slot a, Slot b) const {
  const Sequence &x = sequence(a), &y = sequence(b);
  const bool by_priority = options_.policy == QueuePolicy::priority;
  if (by_priority && x.priority != y.priority) return x.priority < y.priority;
  return std::pair(x.arrival, x.order) < std::pair(y.arrival, y.order);
}

void Scheduler::sort_running() {
  const auto before = [&](Slot a, Slot b) { return comes_before(a, b); };
  if (!std::is_sorted(running_.begin(), running_.end(), before)) {
    std::sort(running_.begin(), running_.end(), before);
  }
}

std::int64_t Scheduler::watermark_blocks() const {
  return static_cast<std::int64_t>(options_.watermark * static_cast<double>(kv_.num_blocks()));
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

bool Scheduler::end(Sequence& s, const BatchItem& item, bool hold) {
  const bool was_running = s.state == SequenceState::running;
  if (!was_running) waiting_.remove(item.slot);
  s.state = SequenceState::held;
  if (hold) return was_running;
  release_blocks(s);
  free_slot(item.slot);
  return was_running;
}

void Scheduler::leave_seats() {
  std::erase_if(running_, [&](Slot slot) { return at(slot).state != SequenceState::running; });
}

// Memory that was set aside for a request has no room for drafts beyond its last token.
std::int32_t Scheduler::drafts_after(const Sequence& s) const {
  std::int64_t drafts = options_.speculative->num_tokens;
  if (!kv_.is_paged()) drafts = std::clamp<std::int64_t>(s.most_tokens() - s.known, 0, drafts);
  return static_cast<std::int32_t>(drafts);
}

void Scheduler::let_go(Slot slot) {
  release_blocks(at(slot));
  free_slot(slot);
}

void Scheduler::cancel(Slot slot) {
  removed(slot);
  Sequence& s = at(slot);
  if (s.state == SequenceState::waiting) waiting_.remove(slot);
  if (s.state == SequenceState::running) remove_running(slot);
  if (s.state != SequenceState::swapped) release_blocks(s);
  s.known = std::max(s.known, s.computed);  // drafts under way
  free_slot(slot);
}

// A step under way brings nothing: as if it had not been decided.
void Scheduler::lose_step(Sequence& s) {
  const auto left = [&] { return std::max<std::int64_t>(0, s.known - s.computed); };
  pending_tokens_ -= left();
  s.known -= s.expected;
  s.expected = 0;
  s.num_under_way = 0;
  pending_tokens_ += left();
}

void Scheduler::forget_all() {
  Batch batch;
  kv_.forget_all();
  for (Sequence& s : sequences_) {
    if (s.request >= 0) lose_step(s);
  }
  while (!running_.empty()) {
    removed(running_.back());
    preempt(batch, running_.back());
  }
  waiting_.for_each([&](Slot slot) {
    if (sequence(slot).kv.num_blocks > 0) give_back(at(slot));
  });
  lost_steps();
}

std::int64_t Scheduler::slots_held() const {
  return slots_reserved() - (table_blocks_ * kv_.block_size() - slots_held_);
}

}  // namespace tessera::serving
