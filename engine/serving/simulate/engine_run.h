#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "tessera/serving/deployment.h"
#include "tessera/serving/engine_core.h"
#include "tessera/serving/simulate.h"
#include "tessera/serving/stage_clocks.h"
#include "tessera/serving/stretches.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

/// One replica during a run: its engine with a clock, which knows how long requests really are.
/// Steps of one stage and nothing but decodes are taken as stretches.
class EngineRun {
 public:
  /// @param clocks of devices that the replica names; `shared` where other engines name one too
  EngineRun(const Replica& replica, const Traffic& traffic, const SimulationOptions& options,
            std::int32_t number, Log& log, DeviceClocks& clocks, bool shared);

  const Scheduler& scheduler() const { return core_.scheduler(); }
  const Replica& replica() const { return replica_; }
  const EngineCore& core() const { return core_; }
  EngineCore& core() { return core_; }

  /// A request comes. False where it can never run here: it is rejected.
  bool submit(std::int64_t request, Ticks now);
  /// Of a request whose KV cache is about to come from another pool.
  Sequence loading_sequence(std::int64_t request) const;
  /// Of a replica that was brought up to now.
  bool cancel(std::int64_t request, Ticks now) { return core_.cancel(request, now); }
  /// All that it has, by number; and one of them given up, to go on elsewhere.
  std::vector<std::int64_t> requests() const { return core_.requests(); }
  void withdraw(std::int64_t request, Ticks now) { core_.withdraw(request, now); }

  /// Decides a step and sends it on its way, if there is one; `retry` is when to ask again although
  /// nothing happened, kNever for never. Only `alone` on its devices it goes on as a stretch.
  bool start_step(Ticks now, bool alone, Ticks& retry);
  bool is_in_stretch() const {
    return std::any_of(flights_.begin(), flights_.end(),
                       [](const Flight& flight) { return flight.is_stretch(); });
  }
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
  bool ends_at(Ticks now) const { return !flights_.empty() && flights_.front().ends_at(now); }
  /// When it decides again that asks to: where that is recorded, when it did.
  Ticks decides_at(Ticks asked) const;
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
    return !flights_.empty() && flights_.front().version == version;
  }

  /// The oldest step ends now. Requests that ended with it are appended.
  void end_step(Ticks now, std::vector<Ended>& ended);

  /// @param blocks whether used_blocks is wanted
  /// @param is_over whether a step that ends at this very tick has ended
  ReplicaLoad load(Ticks now, bool blocks, bool is_over) const;
  std::int64_t output_tokens(Ticks now) const;  ///< generated before
  bool caches_prefixes() const { return scheduler().kv().caches_prefixes(); }
  std::int64_t cached_tokens(std::int64_t request) const;
  void close(Ticks end);  ///< sums into the log

 private:
  /// A step, or a stretch of them, on its way through the stages: the times of the work at the same
  /// place among those under way.
  struct Flight {
    StepTimes times;
    /// The one after it is its next step, decided with its last one (and still empty).
    bool is_followed = false;
    std::int64_t version = 0;
    std::vector<Pass> passes = {};  ///< where somebody wants them

    bool is_stretch() const { return times.count > 1 || is_followed; }
    /// Is the step after that one's last, a token further each.
    void go_on_from(const StepTimes& before);
    /// The first of its steps that ends at `time` or later.
    std::int64_t steps_until(Ticks time) const;
    bool ends_at(Ticks time) const { return times.end_of(steps_until(time)) == time; }
  };

  /// Of a request in lockstep: the step that brings its last token.
  struct LastStep {
    std::int64_t step = 0;
    Slot slot = 0;
    std::int64_t joined = 0;  ///< where that is another step, it is about another request
    auto operator<=>(const LastStep&) const = default;
  };

  Sequence sequence_of(std::int64_t request) const;
  /// Tokens that its request generates here in all.
  std::int64_t output_of(Ledger::Progress& p) const {
    if (p.most_output == 0) p.most_output = find_output(p.request);
    return p.most_output;
  }
  std::int64_t find_output(std::int64_t request) const;
  void fly(const Work& work, Flight& flight, Ticks now);
  void fill_in_content(Sequence& s) const;
  void plan_stretch(const Batch& batch, Flight& flight);
  void end_by_horizon(StepTimes& times) const;
  void renew(Flight& flight);
  bool next_is_decided(const Flight& flight, Ticks now) const {
    const Ticks start = flight.times.start;
    return now > start || (now == start && now == decided_at_);
  }
  void take_steps(Batch& batch, std::int64_t steps);
  void take_next(const Work& work, Work& next, const StepTimes& times);
  const StepRecord* recorded_step(std::int64_t step) const;
  std::span<const Token> recorded_tokens(std::int64_t request, std::int64_t from,
                                         std::int64_t count) const;
  void guess(const BatchItem& item, std::int64_t number, Generated& g) const;
  Generated generate(const BatchItem& item, std::int64_t step);
  void check_joined(const Batch& batch, Ticks start);
  void leave_before_end(const Batch& batch);
  void account_stretch(const Batch& batch, const Flight& flight, Ticks until);
  /// Calls visit(time) for every block that a step of a stretch takes after its first one.
  template <class Visit>
  void for_each_taken(const Batch& batch, const Flight& flight, Visit&& visit) const {
    const std::int64_t size = scheduler().kv().block_size();
    for (const BatchItem& item : batch.items) {
      const Sequence& s = scheduler().sequence(item.slot);
      std::int64_t j = s.kv.num_blocks * size - s.computed + 1;  // step number, from 0
      const std::int64_t ahead = flight.is_followed ? 1 : 0;
      for (; j < flight.times.count + ahead; j += size) visit(flight.times.end_of(j - ahead));
    }
  }

  const Replica& replica_;
  const Traffic& traffic_;
  Log& log_;
  const SimulationOptions& options_;
  std::size_t number_;
  std::vector<const StepRecord*> recorded_steps_;  ///< of this engine
  bool skip_;
  Ticks horizon_;
  std::size_t num_stages_;
  bool prefill_only_;
  EngineCore core_;
  Stretches stretches_;
  std::vector<double> rates_;  ///< cumulative, of accepted drafts
  double found_ = 1;           ///< share of steps after which there are any
  StageClocks stages_;
  std::priority_queue<LastStep, std::vector<LastStep>, std::greater<>> last_steps_;
  std::deque<Flight> flights_;  ///< of the core's works under way
  std::vector<StepEnd> new_ends_;
  std::int64_t next_version_ = 0;
  Ticks decided_at_ = -1;
};

}  // namespace tessera::serving
