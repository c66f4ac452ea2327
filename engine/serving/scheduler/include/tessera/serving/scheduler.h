#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/core/registry.h"
#include "tessera/serving/block_manager.h"
#include "tessera/serving/content.h"
#include "tessera/serving/engine_options.h"
#include "tessera/serving/lockstep.h"
#include "tessera/serving/log.h"
#include "tessera/serving/step_cost.h"
#include "tessera/serving/wait_queue.h"

namespace tessera::serving {

enum class SequenceState : std::uint8_t {
  waiting,  ///< in the queue
  running,  ///< has a seat
  swapped,  ///< its keys and values are in host memory
  held,     ///< done here, its blocks wait for the transfer to another pool
  loading,  ///< its keys and values arrive from another pool
};

/// A request as schedulers see it. Its true length is not among this.
struct alignas(64) Sequence {
  // What every step looks at comes first, as far as the blocks' number, and is one line of the
  // cache.
  std::int64_t request = 0;  ///< the caller's number
  /// Tokens of prompt and output that exist; of a scheduler that decides ahead with those that
  /// steps under way are to bring.
  std::int64_t known = 1;
  std::int64_t computed = 0;  ///< of these, in the KV cache, or on the way in a step under way
  std::int64_t prompt_tokens = 1, max_tokens = 1;
  std::int32_t num_under_way = 0;  ///< steps that sample for it and are not complete
  std::int32_t expected = 0;       ///< of `known`, what they are to bring if all drafts pass
  std::int32_t drafts = 0;         ///< guessed tokens, to be verified in its next step
  SequenceState state = SequenceState::waiting;
  bool was_admitted = false;
  bool was_preempted = false;
  BlockTable kv;
  std::int64_t most_computed = 0;  ///< before a preemption
  Content content;
  Ticks arrival = 0;
  std::int64_t order = 0;  ///< of joining the queue first
  std::int64_t seat = 0;   ///< order of admissions
  std::int32_t priority = 0, slo_class = 0;
  std::int64_t cached_tokens = 0;      ///< found at its first admission
  std::int64_t recomputed_tokens = 0;  ///< computed more than once
  std::int32_t num_preemptions = 0;

  bool is_under_way() const { return num_under_way > 0; }
  std::int64_t most_tokens() const { return prompt_tokens + max_tokens; }
  std::int64_t generated() const { return known - prompt_tokens; }
};

/// One request's part in a step.
struct BatchItem {
  std::int64_t request = 0;
  std::int64_t tokens = 0;   ///< new ones, drafts included
  std::int64_t context = 0;  ///< in its KV cache before
  std::int64_t drafts = 0;   ///< of `tokens`
  Slot slot = 0;
  bool samples = false;  ///< reaches its last known token, so a new one comes out
  bool decodes = false;  ///< one token after its prompt, and drafts
};

/// Blocks to be copied before a step, those of `swap_out` first.
struct Moves {
  struct Move {
    Block from = BlockPool::none, to = BlockPool::none;
  };
  std::vector<Move> swap_out;  ///< from the device to the host
  std::vector<Move> swap_in;   ///< from the host to the device

  bool empty() const { return swap_out.empty() && swap_in.empty(); }
  std::size_t size() const { return swap_out.size() + swap_in.size(); }
  void clear() {
    swap_out.clear();
    swap_in.clear();
  }
};

/// What a step is to compute.
struct Batch {
  std::vector<BatchItem> items;
  std::vector<Slot> admitted;           ///< for the first time or again
  std::vector<std::int64_t> preempted;  ///< requests
  Moves moves;                          ///< to or from host memory
  Limit limit = Limit::none;            ///< that stopped admission
  StepLoad load;
  /// Of a scheduler that keeps decodes in lockstep: how many are in the step without an item, who
  /// is so for the first time, and the step's number among those; -1: none is.
  std::int64_t num_in_step = 0;
  std::vector<Slot> joined;
  std::int64_t lockstep = -1;
  /// Nothing was decided, but something will be at that time; kNever: only events change that.
  Ticks decide_again = kNever;

  void clear();
};

/// What a step brought for an item that samples.
struct Generated {
  std::int64_t tokens = 0;    ///< new output tokens: accepted drafts and one more
  std::int64_t accepted = 0;  ///< drafts among them
  bool ended = false;         ///< the last one
  bool hold = false;          ///< of a request that ended here: its blocks wait for a transfer
  /// Tokens that were guessed for its next step; -1: as many as the options say. A look-up that
  /// finds nothing guesses nothing.
  std::int64_t next_drafts = -1;
  /// The new ones, where content is found by real tokens.
  std::span<const Token> token_ids = {};
};

/// Counts over a run.
struct SchedulerCounts {
  std::int64_t prefix_queries = 0, prefix_hits = 0;  ///< tokens, at first admissions
  std::int64_t num_preemptions = 0, num_swaps = 0;
  std::int64_t recomputed_tokens = 0;

  SchedulerCounts& operator+=(const SchedulerCounts& other) {
    prefix_queries += other.prefix_queries;
    prefix_hits += other.prefix_hits;
    num_preemptions += other.num_preemptions;
    num_swaps += other.num_swaps;
    recomputed_tokens += other.recomputed_tokens;
    return *this;
  }
};

/// Decides what each step of an engine computes: admission, batching, KV blocks, preemption. Knows
/// no clock and no model; whoever runs the steps, simulator or server, calls
///
///     scheduler.add(...)                     when a request comes
///     scheduler.decide(now, batch)           before a step; several may be under way (pipelines,
///                                            async scheduling)
///     scheduler.complete(batch, generated)   when it is done
///     scheduler.cancel(slot)                 when its client has gone
///
/// Deterministic. A policy is a class that derives from it and decides in `schedule`.
class Scheduler {
 public:
  Scheduler(const EngineOptions& options, const BlockManager::Options& kv);
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Whether a request can ever run here; else why not.
  virtual std::string why_never(std::int64_t prompt_tokens, std::int64_t max_tokens) const;
  /// Joins the queue. @param sequence with request, lengths, content, priority, arrival
  Slot add(Sequence sequence);
  /// What it does otherwise than its options say; empty where they are followed.
  virtual std::string note() const { return {}; }
  /// Of another pool, with the KV cache of its first `computed` tokens still to come. Holds blocks
  /// for all that is known of it from now on; false where they are short, or somebody waits for
  /// them.
  bool add_loading(Sequence sequence, Slot& slot);
  /// Whether it would be added now.
  bool may_load(const Sequence& sequence) const;
  /// They have come: it joins the queue.
  void loaded(Slot slot);

  /// @param batch is overwritten
  void decide(Ticks now, Batch& batch);
  /// @param generated one per item of the batch; those that do not sample are not looked at
  void complete(const Batch& batch, const std::vector<Generated>& generated) {
    complete_each(batch, [&](std::size_t i) -> const Generated& { return generated[i]; });
  }
  /// The same, asking result_of(i) for each item that samples and whose request is here.
  template <class ResultOf>
  void complete_each(const Batch& batch, ResultOf&& result_of) {
    bool any_ended = false;
    const std::span<const BatchItem> items = batch.items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const BatchItem& item = items[i];
      fetch_ahead(items, i, [](const BatchItem& later) { return later.slot; });
      Sequence& s = at(item.slot);
      // Another one's: it ended while this step was decided ahead.
      if (!item.samples || s.request != item.request) continue;
      any_ended |= take(s, item, result_of(i));
    }
    if (any_ended) leave_seats();
    complete_in_step(batch);
    completed(batch);
  }
  /// Gives back what a held sequence has.
  void let_go(Slot slot);
  /// Forgets a sequence, whatever it does. Its blocks may be given to others at once: a step under
  /// way that writes them is before every step that will. What it brings is dropped by `complete`,
  /// which knows by its number that the request is gone; so a number is never used twice.
  void cancel(Slot slot);
  /// What the KV cache held is lost, with the steps under way, which are not to be completed: who
  /// was computed starts again, in the same order and before all others. What is swapped out stays;
  /// what is held for a transfer or loading is to be cancelled by whoever transfers it.
  void forget_all();

  /// Keeps decodes in lockstep while at least `least` requests run; false where it cannot. Who
  /// turns it on sees to it that a request leaves before the step that ends it is completed, and
  /// before anybody asks what it has generated; and that no step is lost.
  bool keep_in_step(std::int64_t least);
  const Lockstep& lockstep() const { return lockstep_; }
  /// A sequence leaves the lockstep, or all do.
  void leave_step(Slot slot);
  void leave_steps();
  /// Those that left since the last call, with the steps in lockstep that are complete.
  std::vector<std::pair<Slot, std::int64_t>> take_left() { return std::exchange(left_step_, {}); }

  /// Whether it decides a step while the one before it is under way: tokens that are still to come
  /// are scheduled as if they were there, and who ended unforeseen is computed once in vain.
  bool decides_ahead() const { return decides_ahead_; }

  /// Steps that may be under way at a time on a pipeline of so many stages.
  virtual std::size_t most_under_way(std::size_t num_stages) const {
    return decides_ahead_ ? 2 : num_stages;
  }

  const Sequence& sequence(Slot slot) const { return sequences_[static_cast<std::size_t>(slot)]; }
  std::int64_t num_running() const { return std::ssize(running_) + lockstep_.size(); }
  std::size_t num_waiting() const { return waiting_.size() + num_set_aside(); }
  /// Calls visit(sequence) for each in the queue, from the front.
  template <class Visit>
  void for_each_waiting(Visit&& visit) const {
    waiting_.for_each([&](Slot slot) { visit(sequence(slot)); });
  }
  /// The first in the queue; null: it is empty.
  const Sequence* first_waiting() const {
    return waiting_.empty() ? nullptr : &sequence(waiting_.front());
  }
  std::size_t num_unfinished() const { return num_live_; }
  /// Prompt tokens not yet computed, of all, and one per running request: a router's load.
  std::int64_t pending_tokens() const { return pending_tokens_; }
  const BlockManager& kv() const { return kv_; }
  const EngineOptions& options() const { return options_; }
  const SchedulerCounts& counts() const { return counts_; }
  std::int64_t slots_held() const;  ///< of those handed out, that hold a token
  std::int64_t slots_reserved() const {
    return (kv_.num_blocks() - kv_.num_free()) * kv_.block_size();
  }

  /// @throws Error{internal} naming an invariant that does not hold.
  virtual void check(const Batch& batch) const;

 protected:
  virtual void schedule(Ticks now, Batch& batch) = 0;
  /// Requests that wait elsewhere than in the queue.
  virtual std::size_t num_set_aside() const { return 0; }
  virtual void added(Slot) {}              ///< to the queue, from outside
  virtual void removed(Slot) {}            ///< about to be cancelled, or to lose its blocks
  virtual void pad(StepLoad&) const {}     ///< adds what a step computes for nobody
  virtual void completed(const Batch&) {}  ///< its results are in
  virtual void lost_steps() {}             ///< all that are under way, whose results never come
  /// Whether `schedule` calls decode_in_step, and join_step where joins_step.
  virtual bool decodes_in_step() const { return false; }
  /// For Stretches: how many more steps like this one would be decided just the same, at most
  /// `most`, if no request came or ended; and that so many were taken at once. A policy that cannot
  /// tell says 0.
  virtual std::int64_t repeats(const Batch&, std::int64_t) const { return 0; }
  virtual void repeated(const Batch&, std::int64_t) {}

  /// Whether the step is a token for every running request and nothing else, so that the next one
  /// finds the same requests, each a token further.
  bool is_all_decodes(const Batch& batch) const;
  /// Whether such a step's queue stays as it is: empty, or its first request goes on being refused,
  /// as seats stay taken and free blocks only become fewer. (With a prefix cache it may find more
  /// of its blocks in a later step.)
  bool queue_stays(const Batch& batch) const;
  /// Why a request can never have its blocks with `keep_free` left, or be computed in one step; or
  /// nothing.
  std::string why_no_room(std::int64_t prompt_tokens, std::int64_t max_tokens,
                          std::int64_t keep_free) const;
  std::string why_no_step(std::int64_t prompt_tokens, std::int64_t max_tokens) const;
  /// For `repeats` of such a step: how far the blocks and the context go.
  std::int64_t decode_repeats(const Batch& batch, std::int64_t most) const;

  Sequence& at(Slot slot) { return sequences_[static_cast<std::size_t>(slot)]; }
  /// Of a walk over sequences, which lie anywhere: asks the memory for one that comes soon.
  template <class List, class SlotOf>
  void fetch_ahead(const List& list, std::size_t i, SlotOf&& slot_of) const {
    constexpr std::size_t kAhead = 6;
    if (i + kAhead < list.size()) __builtin_prefetch(&sequence(slot_of(list[i + kAhead])), 1);
  }
  /// Tokens that a running sequence still has to compute; none while its last step is under way, or
  /// (decided ahead) the one that brings its last token, whether drafts pass or not.
  static std::int64_t left(const Sequence& s) {
    if (s.is_under_way() && s.known - s.expected + s.num_under_way >= s.most_tokens()) return 0;
    return s.known + s.drafts - s.computed;
  }
  /// The same, as far as the context goes.
  std::int64_t next_tokens(const Sequence& s) const {
    return std::min(left(s), model_len() - 1 - s.computed);
  }
  /// Tokens that a sequence needs room for which is computed up to `end`: with those that a draft
  /// model writes ahead.
  std::int64_t room_until(const Sequence& s, std::int64_t end) const {
    return lookahead_ == 0 ? end : room_ahead(s, end);
  }
  /// Puts `tokens` of a sequence, which has the blocks for them, into the step.
  void put(Batch& batch, Slot slot, std::int64_t tokens);
  /// Before any other: a token for each that is in lockstep.
  void decode_in_step(std::int64_t& budget);
  /// Whether a running sequence that has its blocks decodes on from now on, and nothing else.
  bool joins_step(const Sequence& s, std::int64_t tokens) const;
  /// Instead of `put`; it is among the running ones until `join_steps`, after all others.
  void join_step(Batch& batch, Slot slot);
  void join_steps(const Batch& batch);
  /// Takes an item out again, as if it had not been put.
  void take_back(Batch& batch, std::size_t item);
  /// Gives one in the queue a seat, with blocks for `tokens` tokens in all of which `num_found`
  /// blocks were found; false where blocks are short. Does not put it into the step.
  bool admit(Batch& batch, Slot slot, std::int64_t tokens, std::int64_t num_found);
  /// Gives a sequence that has its blocks a seat.
  void take_seat(Batch& batch, Slot slot);
  /// Blocks of a waiting sequence that were found and that it can use.
  std::int64_t find_prefix(const Sequence& s) const;
  /// Tokens that a waiting sequence has to compute of which so many blocks were found.
  std::int64_t uncached(const Sequence& s, std::int64_t num_found) const {
    return s.known - s.computed - num_found * kv_.block_size();
  }
  /// Whether a waiting sequence could have blocks for all that is known of it, with some kept free.
  bool fits_whole(const Sequence& s, std::int64_t num_found, std::int64_t keep_free = 0) const;
  /// Takes the seat and the blocks of a running sequence and puts it back into the queue, where
  /// `in_front`.
  void preempt(Batch& batch, Slot slot, bool in_front = true);
  /// What becomes of a running sequence that `make_room` takes the blocks from.
  virtual void give_up(Batch& batch, Slot slot);
  /// Makes room for `end` tokens in all of the sequence at `position` of the running ones. Where
  /// blocks are short those behind it lose theirs, the last first, but not while their step is
  /// under way; then the sequence itself, and the answer is false.
  bool make_room(Batch& batch, std::size_t position, std::int64_t end);
  /// Running ones in order of arrival, by priority first where the queue is.
  void sort_running();
  bool comes_before(Slot a, Slot b) const;
  void remove_running(Slot slot);
  void free_slot(Slot slot);
  void release_blocks(Sequence& s);
  std::int64_t model_len() const { return model_len_; }  ///< no sequence grows beyond it
  /// Makes room for `tokens` tokens of a running sequence in all, false where blocks are short.
  bool extend(Sequence& s, std::int64_t tokens) {
    return kv_.has_room(s.kv, tokens) || take_more(s, tokens);
  }
  /// Hands blocks to a sequence that holds none.
  bool take_blocks(Sequence& s, std::int64_t tokens, std::int64_t num_found);
  std::int64_t watermark_blocks() const;
  bool has_seat() const { return num_running() < options_.max_num_seqs; }

  EngineOptions options_;
  BlockManager kv_;
  WaitQueue waiting_;
  std::vector<Slot> running_;  ///< in order of admission, without those in lockstep
  std::vector<Sequence> sequences_;
  SchedulerCounts counts_;
  std::int64_t lookahead_ = 0;  ///< slots that a draft model writes ahead

 private:
  friend class Stretches;

  bool take(Sequence& s, const BatchItem& item, const Generated& g);
  bool end(Sequence& s, const BatchItem& item, bool hold);
  void leave_seats();
  void load(Batch& batch) const;
  void end_standstill(Batch& batch);
  void give_back(Sequence& s);
  bool take_more(Sequence& s, std::int64_t tokens);
  std::int64_t room_ahead(const Sequence& s, std::int64_t end) const;
  std::int32_t drafts_after(const Sequence& s) const;
  void lose_step(Sequence& s);
  void check_items(const Batch& batch) const;
  void leave(Slot slot);
  void sort_by_seat();
  bool stays_in_step(std::int64_t budget) const;
  void complete_in_step(const Batch& batch);
  std::int64_t num_completed_in_step(Slot slot) const {
    return std::max<std::int64_t>(0, lockstep_.num_completed() - lockstep_.joined(slot));
  }
  /// Adds what a sequence did in lockstep.
  void bring_up(Slot slot, Sequence& s) const;

  bool decides_ahead_ = false;
  std::int64_t model_len_;
  std::vector<Slot> free_slots_;
  std::size_t num_live_ = 0;
  std::int64_t next_order_ = 0, next_seat_ = 0;
  std::int64_t pending_tokens_ = 0;
  std::int64_t slots_held_ = 0, table_blocks_ = 0;  ///< tokens and blocks of all on the device
  std::int64_t least_in_step_ = 0;                  ///< 0: no lockstep
  Lockstep lockstep_;
  std::vector<std::pair<Slot, std::int64_t>> left_step_;
};

// In line, as a step has hundreds of items.
inline void Scheduler::put(Batch& batch, Slot slot, std::int64_t tokens) {
  Sequence& s = at(slot);
  const std::int64_t end = s.computed + tokens;
  const std::int64_t drafts = std::max<std::int64_t>(0, end - s.known);
  const bool samples = end >= s.known;
  const bool decodes = tokens - drafts == 1 && s.computed >= s.prompt_tokens;
  batch.items.push_back({s.request, tokens, s.computed, drafts, slot, samples, decodes});
  if (s.was_preempted) {
    const std::int64_t again =
        std::max<std::int64_t>(0, std::min(end, s.most_computed) - s.computed);
    s.recomputed_tokens += again;
    counts_.recomputed_tokens += again;
  }
  s.computed = end;
  s.drafts = 0;
  pending_tokens_ -= tokens - drafts;
  slots_held_ += tokens;
  // From now on, before the step has run: a later request of the same step may find them.
  kv_.publish(s.kv, s.content, std::min(end, s.known - s.expected));
  if (!samples) return;
  ++s.num_under_way;
  if (!decides_ahead_) return;
  // What a step is to bring is known from now on to who decides ahead, as if all drafts passed.
  s.known += 1 + drafts;
  s.expected += static_cast<std::int32_t>(1 + drafts);
  if (options_.speculative) s.drafts = drafts_after(s);
  ++pending_tokens_;
}

// What a step brought for one of its items.
// @return whether a running request has ended
inline bool Scheduler::take(Sequence& s, const BatchItem& item, const Generated& g) {
  const bool was_running = s.state == SequenceState::running;  // else preempted meanwhile
  const std::int64_t refused = item.drafts - g.accepted;
  --s.num_under_way;
  if (!g.token_ids.empty() && s.content.tokens) s.content.tokens->append(g.token_ids);
  if (decides_ahead_) {
    s.expected -= static_cast<std::int32_t>(1 + item.drafts);
    s.known -= refused;
    if (!was_running) pending_tokens_ -= refused;
  } else {
    s.known += g.tokens;
    pending_tokens_ += g.tokens;
    if (was_running) pending_tokens_ -= g.accepted;
  }
  if (was_running) {
    s.computed -= refused;
    slots_held_ -= refused;
    if (decides_ahead_) kv_.publish(s.kv, s.content, s.computed - s.expected);
  }
  if (g.ended) return end(s, item, g.hold);
  if (was_running && options_.speculative) {
    s.drafts = drafts_after(s);
    if (g.next_drafts >= 0) {
      s.drafts = static_cast<std::int32_t>(std::min<std::int64_t>(s.drafts, g.next_drafts));
    }
  }
  return false;
}

/// The schedulers of the engine.
const Registry<Scheduler, const EngineOptions&, const BlockManager::Options&>& schedulers();
/// The one that the options name. @throws Error{not_found} with the nearest names.
inline std::unique_ptr<Scheduler> make_scheduler(const EngineOptions& options,
                                                 const BlockManager::Options& kv) {
  return schedulers().make(options.scheduler, options, kv);
}

}  // namespace tessera::serving
