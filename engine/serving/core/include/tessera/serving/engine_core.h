#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/serving/ledger.h"
#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// A step as an executor is told of it.
struct Work {
  std::int64_t step = 0;  ///< 0-based, of its engine
  Batch batch;
  std::int64_t num_waiting = 0;  ///< when it had been decided
  /// [items] blocks of each, by position, as of the decision; where blocks have names and the
  /// executor wants them.
  std::vector<std::vector<Block>> tables;
};

/// What came of it.
struct Done {
  std::int64_t step = 0;
  StepTimes times = {};
  std::vector<Generated> generated = {};  ///< [items]; of those that do not sample nothing is read
};

/// Runs the steps of a model, or takes their times from somewhere. Works are executed and finished
/// in the order of their steps, so that what a step frees may be given to the one after it.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void launch(const Work& work) = 0;
  /// The oldest one that is done and was not reported yet.
  virtual std::optional<Done> finished() = 0;
};

/// A request that has ended.
struct Ended {
  std::int64_t request = 0;
  bool hold = false;  ///< its blocks wait for a transfer to another pool: then let_go
  Slot slot = 0;
};

/// One engine: its scheduler, its record, and the steps under way. Knows neither a clock nor what
/// runs the steps: simulators and servers say when it is and do what it decides. At one moment they
/// take the ends of steps, then transfers that have come, cancels and arrivals, then decide.
class EngineCore {
 public:
  struct Options {
    std::size_t num_stages = 1;  ///< of the pipeline: as many steps may be under way
    bool with_tables = false;    ///< whether works hold the blocks of their items
  };
  EngineCore(std::unique_ptr<Scheduler> scheduler, Ledger ledger, const Options& options);

  const Scheduler& scheduler() const { return *scheduler_; }
  Scheduler& scheduler() { return *scheduler_; }
  const Ledger& ledger() const { return ledger_; }
  Ledger& ledger() { return ledger_; }

  /// Told of each step of an executor that is done, before its results are taken: who was computed
  /// still has its blocks.
  std::function<void(const Work&, const StepTimes&)> on_step = {};

  /// Steps that are done. @return requests that ended with them
  std::vector<Ended> take_ends(Ticks now, Executor& executor);
  /// Decides steps while there is room, where something happened since it was last called, or it is
  /// time to decide again.
  void decide_all(Ticks now, Executor& executor);

  /// A request comes, of a number that was never used. False where it can never run here: it is
  /// rejected.
  bool submit(Sequence sequence, Ticks now);
  /// The KV cache of a request is about to come from another pool; false where blocks are short.
  bool begin_loading(Sequence sequence, Ticks now);
  void finish_loading(std::int64_t request);
  /// Its client has gone: its blocks are free from now on, and what a step under way brings for it
  /// is dropped. False for one that is not here (any more).
  bool cancel(std::int64_t request, Ticks now);
  /// The same of one that is to go on elsewhere.
  bool withdraw(std::int64_t request, Ticks now);
  /// One that is here.
  const Sequence& sequence(std::int64_t request) const {
    return scheduler_->sequence(slots_.at(request));
  }
  /// All that are here, by number.
  std::vector<std::int64_t> requests() const;
  /// Calls visit(sequence) for each of them, in any order.
  template <class Visit>
  void for_each_request(Visit&& visit) const {
    for (const auto& [request, slot] : slots_) visit(scheduler_->sequence(slot));
  }
  /// Gives back what a held request has.
  void let_go(std::int64_t request, Ticks now);

  /// Decides a step; nothing where there is nothing to do. It is under way from then on.
  Work* decide(Ticks now);
  /// When to decide again although nothing happened, after nothing was decided; kNever for never.
  Ticks decide_again() const { return has_room() ? decide_again_ : kNever; }
  /// The oldest step under way is done; result_of(i) says what it brought for an item, asked for
  /// those that sample and whose request is still here. Requests that ended with it are appended.
  template <class ResultOf>
  void finish(const StepTimes& times, ResultOf&& result_of, std::vector<Ended>& ended) {
    account(times.end);
    std::unique_ptr<Work> work = std::move(under_way_.front());
    under_way_.pop_front();
    const std::size_t before = ended.size();
    scheduler_->complete_each(work->batch, [&](std::size_t i) {
      const BatchItem& item = work->batch.items[i];
      Generated g;
      // Of one that ended or was cancelled meanwhile nobody wants any more.
      if (ledger_.progress(item.slot).request != item.request) return g;
      g = result_of(i);
      ledger_.generated(scheduler_->sequence(item.slot), item, g, times);
      if (g.ended) ended.push_back({item.request, g.hold, item.slot});
      return g;
    });
    ledger_.generated_in_step(work->batch.num_in_step, times);
    end_step(std::move(work), times, std::span(ended).subspan(before));
  }
  /// A request is in lockstep with others no more, or none is (Scheduler::keep_in_step).
  void leave_step(Slot slot);
  void leave_steps();
  /// What runs the steps has lost them, and all that the KV cache held (a stage is gone): requests
  /// start again, and no work that was under way is to be finished.
  void lose_steps(Ticks now);
  /// Works under way, the oldest first. A simulator changes those that it takes several at once of.
  Work& under_way(std::size_t i) { return *under_way_[i]; }
  const Work& under_way(std::size_t i) const { return *under_way_[i]; }
  /// One more that a simulator fills in later, and takes away again.
  void push_empty() { under_way_.push_back(spare()); }
  void pop_empty() { under_way_.pop_back(); }

  /// Whether another step may be decided now.
  bool has_room() const { return under_way_.size() < most_under_way_; }
  /// Whether one may be decided for what just came. An engine that decides ahead waits for the end
  /// of a step then (vLLM's core loop: it blocks on the oldest result).
  bool has_room_for_news() const { return scheduler_->decides_ahead() ? is_idle() : has_room(); }
  bool is_idle() const { return under_way_.empty(); }
  /// Whether nothing will ever come of the requests that it has.
  bool is_stalled() const { return is_idle() && scheduler_->num_unfinished() > num_loading_; }
  /// Whether its scheduler goes round in circles: since the last token generated it has computed
  /// several times all that its requests hold together, only to drop it again.
  bool is_circling() const;
  /// What was held since the last change, which comes now.
  void account(Ticks now) { ledger_.account(*scheduler_, now, !is_idle()); }

 private:
  void note_left();
  void note(std::int64_t request, Slot slot);
  void end_step(std::unique_ptr<Work> work, const StepTimes& times, std::span<const Ended> ended);

  std::unique_ptr<Scheduler> scheduler_;
  Ledger ledger_;
  std::size_t most_under_way_;
  bool with_tables_;
  std::unique_ptr<Work> spare();

  std::deque<std::unique_ptr<Work>> under_way_;
  std::vector<std::unique_ptr<Work>> spare_;  ///< with the memory of those that are over
  Ticks decide_again_ = kNever;
  bool has_ended_ = false, has_news_ = false;     ///< since decide_all
  std::unordered_map<std::int64_t, Slot> slots_;  ///< by request, of all that are here
  std::size_t num_loading_ = 0;
  std::int64_t next_step_ = 0;
  std::int64_t most_tokens_ = 0;  ///< prompt and output of the longest request that came
};

}  // namespace tessera::serving
