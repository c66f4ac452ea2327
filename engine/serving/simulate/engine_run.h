#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tessera/serving/deployment.h"
#include "tessera/serving/log.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

/// A step, or a stretch of decode steps of the same requests, on its way through the stages.
struct StepUnderWay {
  Batch batch;
  std::vector<Generated> generated;  ///< per item, of the last step
  Ticks start = 0, end = 0;
  // A stretch: `count` steps of first, first + slope, first + 2 slope, ... ticks.
  Ticks first = 0, slope = 0;
  std::int64_t count = 1;
  /// The one under way after it is its next step, decided with its last one (and still empty).
  bool is_followed = false;
  std::int64_t num_waiting = 0;
  std::int64_t version = 0;

  /// End of its step number `steps` (from 1); of 0 its start.
  Ticks end_of(std::int64_t steps) const;
  bool is_stretch() const { return count > 1 || is_followed; }
  /// Is the step after that one's last, a token further each.
  void go_on_from(const StepUnderWay& step);
  /// The first of its steps that ends at `time` or later.
  std::int64_t steps_until(Ticks time) const;
  /// Whether one of its steps ends at that very tick.
  bool ends_at(Ticks time) const { return end_of(steps_until(time)) == time; }
};

/// One replica during a run: its scheduler, and the steps under way.
class EngineRun {
 public:
  EngineRun(const Replica& replica, const Traffic& traffic, std::uint64_t seed, bool skip,
            bool record_steps, Ticks horizon, std::int32_t number, Log& log);

  const Scheduler& scheduler() const { return *scheduler_; }
  Scheduler& scheduler() { return *scheduler_; }
  const Replica& replica() const { return replica_; }

  /// A request comes. False where it can never run here: it is rejected.
  bool submit(std::int64_t request, Ticks now);
  /// The KV cache of a request is about to come from another pool; false where blocks are short.
  bool begin_loading(std::int64_t request, Ticks now);
  /// Whether it may be so as far as can be told before a stretch is brought up to now: what a
  /// stretch has not taken yet only makes blocks fewer.
  bool may_load(std::int64_t request) const;
  void finish_loading(std::int64_t request, Ticks now);

  struct Ended {
    std::int64_t request = 0;
    bool hold = false;  ///< its blocks wait for a transfer
    Slot slot = 0;
  };
  /// Decides a step and sends it on its way, if there is one; `retry` is when to ask again although
  /// nothing happened, kNever for never.
  bool start_step(Ticks now, Ticks& retry);
  /// Whether another step may be decided now.
  bool has_room() const { return under_way_.size() < most_under_way_; }
  /// Whether one may be decided for what just came. An engine that decides ahead waits for the end
  /// of a step then (vLLM's core loop: it blocks on the oldest result).
  bool has_room_for_news() const { return scheduler_->decides_ahead() ? is_idle() : has_room(); }
  bool is_idle() const { return under_way_.empty(); }
  bool is_stalled() const { return is_idle() && scheduler_->num_unfinished() > num_loading_; }
  /// Whether its scheduler goes round in circles: since the last token generated it has computed
  /// several times all that its requests hold together, only to drop it again.
  bool is_circling() const;
  /// Something came at `now`: a stretch under way ends with the step that runs then (decided ahead:
  /// with the step after).
  void cut_stretch(Ticks now);
  /// Takes the steps of a stretch that ended before `now` as if each had been taken by itself: the
  /// scheduler is then what it was decided to be in the step that runs. To be called before anybody
  /// looks at its blocks or changes them.
  void catch_up(Ticks now);
  /// Decided ahead: the same for the step after that one. What runs is no stretch any more then.
  void catch_up_ahead(Ticks now);
  /// Whether the step that runs ends at that very tick.
  bool ends_at(Ticks now) const { return !under_way_.empty() && under_way_.front().ends_at(now); }
  /// Steps are decided at `now`, as far as there is room for any.
  void note_decisions(Ticks now) { decided_at_ = now; }
  /// A step's end; the version tells a current event from an old one.
  struct StepEnd {
    Ticks time = 0;
    std::int64_t version = 0;
  };
  /// Calls visit(end) for those that are new or have moved since the last call.
  template <class Visit>
  void take_ends(Visit&& visit) {
    for (const StepEnd& end : new_ends_) visit(end);
    new_ends_.clear();
  }
  bool is_current(std::int64_t version) const {
    return !under_way_.empty() && under_way_.front().version == version;
  }

  /// The oldest step ends now. Requests that ended with it are appended.
  void end_step(Ticks now, std::vector<Ended>& ended);
  void let_go(Slot slot, Ticks now);

  /// @param blocks whether used_blocks is wanted
  /// @param is_over whether a step that ends at this very tick has ended
  ReplicaLoad load(Ticks now, bool blocks, bool is_over) const;
  std::int64_t output_tokens(Ticks now) const;  ///< generated so far
  bool caches_prefixes() const { return scheduler_->kv().caches_prefixes(); }
  std::int64_t cached_tokens(std::int64_t request) const;
  void close(Ticks end);  ///< sums into the log

 private:
  /// How far the request of a slot is, close together: its record gets it at its end.
  struct Progress {
    std::int64_t request = -1;  ///< -1: it has ended
    std::int64_t output_tokens = 0, most_output = 0;
    Ticks last_token = kNever;
  };

  Sequence sequence_of(std::int64_t request) const;
  Sequence loading_sequence(std::int64_t request) const;
  std::int64_t output_of(std::int64_t request) const;
  void note_slot(Slot slot, std::int64_t request);
  Progress& progress_of(const BatchItem& item) {
    return progress_[static_cast<std::size_t>(item.slot)];
  }
  void note_limit(Limit limit, Ticks now);
  void admit_records(const Batch& batch, Ticks now);
  void plan_stretch(StepUnderWay& step) const;
  void end_by_horizon(StepUnderWay& step) const;
  void launch(StepUnderWay& step, Ticks now);
  void send(StepUnderWay step);
  void renew(StepUnderWay& step);
  StepUnderWay spare();
  bool next_is_decided(const StepUnderWay& step, Ticks now) const {
    return now > step.start || (now == step.start && now == decided_at_);
  }
  void take_steps(StepUnderWay& step, std::int64_t steps);
  void take_next(StepUnderWay& step, StepUnderWay& next);
  void commit_stretch(StepUnderWay& step);
  void decide_tokens(StepUnderWay& step, std::vector<Ended>& ended);
  void note_gaps(const StepUnderWay& step);
  void account(Ticks now);
  void account_stretch(const StepUnderWay& step, Ticks until);
  /// Calls visit(time) for every block that a step of a stretch takes after its first one.
  template <class Visit>
  void for_each_taken(const StepUnderWay& step, Visit&& visit) const {
    const std::int64_t size = scheduler_->kv().block_size();
    for (const BatchItem& item : step.batch.items) {
      const Sequence& s = scheduler_->sequence(item.slot);
      std::int64_t j = s.kv.num_blocks * size - s.computed + 1;  // step number, from 0
      const std::int64_t ahead = step.is_followed ? 1 : 0;
      for (; j < step.count + ahead; j += size) visit(step.end_of(j - ahead));
    }
  }
  void record(const StepUnderWay& step, const std::vector<Ended>& ended, std::size_t from);

  const Replica& replica_;
  const Traffic& traffic_;
  std::uint64_t seed_;
  bool skip_, record_steps_;
  Ticks horizon_;
  std::int32_t number_;
  Log& log_;
  std::unique_ptr<Scheduler> scheduler_;
  std::size_t num_stages_, most_under_way_ = 1;
  std::vector<double> rates_;  ///< cumulative, of accepted drafts
  bool prefill_only_;
  Ticks swap_per_block_ = 0;

  std::deque<StepUnderWay> under_way_;
  std::vector<StepUnderWay> spare_;  ///< with the memory of steps that are over
  std::vector<StepEnd> new_ends_;
  std::vector<Ticks> stage_free_, stage_busy_;
  std::int64_t next_version_ = 0, num_steps_ = 0;
  Ticks decided_at_ = -1;
  std::size_t num_loading_ = 0;

  Limit limit_ = Limit::none;
  Ticks limit_since_ = 0;
  std::array<Ticks, kNumLimits> limit_ticks_{};

  WideSum block_ticks_ = 0, slot_ticks_ = 0, unusable_ticks_ = 0;
  Ticks refused_ticks_ = 0, busy_ = 0, since_ = 0;
  std::int64_t scheduled_tokens_ = 0, prompt_tokens_ = 0, most_blocks_ = 0;
  std::int64_t most_tokens_ = 0;  ///< prompt and output of the longest request that came
  std::int64_t output_before_ = 0, tokens_before_ = 0;  ///< at the last step that generated any
  std::int64_t drafted_ = 0, accepted_ = 0, num_drafts_ = 0, num_ended_ = 0, output_ = 0;
  std::unordered_map<std::int64_t, Slot> loading_;  ///< by request
  std::vector<Progress> progress_;                  ///< [slot]
};

}  // namespace tessera::serving
