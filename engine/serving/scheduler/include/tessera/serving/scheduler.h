#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/core/registry.h"
#include "tessera/serving/block_manager.h"
#include "tessera/serving/content.h"
#include "tessera/serving/engine_options.h"
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
struct Sequence {
  // What every step looks at comes first, for the sake of the cache.
  std::int64_t request = 0;  ///< the caller's number
  /// Tokens of prompt and output that exist; of a scheduler that decides ahead with those that
  /// steps under way are to bring.
  std::int64_t known = 1;
  std::int64_t computed = 0;       ///< of these, in the KV cache, or on the way in a step under way
  std::int64_t drafts = 0;         ///< guessed tokens, to be verified in its next step
  std::int32_t num_under_way = 0;  ///< steps that sample for it and are not complete
  std::int32_t expected = 0;       ///< of `known`, what they are to bring if all drafts pass
  SequenceState state = SequenceState::waiting;
  bool was_admitted = false;
  std::int64_t prompt_tokens = 1, max_tokens = 1;
  std::int64_t most_computed = 0;  ///< before a preemption
  BlockTable kv;
  Content content;
  Ticks arrival = 0;
  std::int64_t order = 0;  ///< of joining the queue first
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
  Slot slot = 0;
  std::int64_t request = 0;
  std::int64_t tokens = 0;   ///< new ones, drafts included
  std::int64_t context = 0;  ///< in its KV cache before
  std::int64_t drafts = 0;   ///< of `tokens`
  bool samples = false;      ///< reaches its last known token, so a new one comes out
  bool decodes = false;      ///< one token after its prompt, and drafts
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
  void complete(const Batch& batch, const std::vector<Generated>& generated);
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

  /// Whether it decides a step while the one before it is under way: tokens that are still to come
  /// are scheduled as if they were there, and who ended unforeseen is computed once in vain.
  bool decides_ahead() const { return decides_ahead_; }

  /// Steps that may be under way at a time on a pipeline of so many stages.
  virtual std::size_t most_under_way(std::size_t num_stages) const {
    return decides_ahead_ ? 2 : num_stages;
  }

  const Sequence& sequence(Slot slot) const { return sequences_[static_cast<std::size_t>(slot)]; }
  const std::vector<Slot>& running() const { return running_; }
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
  std::int64_t model_len() const;  ///< no sequence grows beyond it
  /// Makes room for `tokens` tokens of a running sequence in all, false where blocks are short.
  bool extend(Sequence& s, std::int64_t tokens) {
    return kv_.has_room(s.kv, tokens) || take_more(s, tokens);
  }
  /// Hands blocks to a sequence that holds none.
  bool take_blocks(Sequence& s, std::int64_t tokens, std::int64_t num_found);
  std::int64_t watermark_blocks() const;
  bool has_seat() const { return std::ssize(running_) < options_.max_num_seqs; }

  EngineOptions options_;
  BlockManager kv_;
  WaitQueue waiting_;
  std::vector<Slot> running_;  ///< in order of admission
  std::vector<Sequence> sequences_;
  SchedulerCounts counts_;
  std::int64_t lookahead_ = 0;  ///< slots that a draft model writes ahead

 private:
  friend class Stretches;

  void load(Batch& batch) const;
  void end_standstill(Batch& batch);
  void give_back(Sequence& s);
  void expect(Sequence& s, std::int64_t drafts);
  bool take_more(Sequence& s, std::int64_t tokens);
  std::int64_t room_ahead(const Sequence& s, std::int64_t end) const;
  std::int64_t drafts_after(const Sequence& s) const;
  void lose_step(Sequence& s);
  void check_items(const Batch& batch) const;

  bool decides_ahead_ = false;
  std::vector<Slot> free_slots_;
  std::size_t num_live_ = 0;
  std::int64_t next_order_ = 0;
  std::int64_t pending_tokens_ = 0;
  std::int64_t slots_held_ = 0, table_blocks_ = 0;  ///< tokens and blocks of all on the device
};

/// The schedulers of the engine.
const Registry<Scheduler, const EngineOptions&, const BlockManager::Options&>& schedulers();
/// The one that the options name. @throws Error{not_found} with the nearest names.
inline std::unique_ptr<Scheduler> make_scheduler(const EngineOptions& options,
                                                 const BlockManager::Options& kv) {
  return schedulers().make(options.scheduler, options, kv);
}

}  // namespace tessera::serving
