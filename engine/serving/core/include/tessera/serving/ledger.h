#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/serving/log.h"
#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// When a step ran; or several steps of the same requests at once, of first, first + slope,
/// first + 2 slope, ... ticks.
struct StepTimes {
  Ticks start = 0, end = 0;
  Ticks first = 0, slope = 0;
  std::int64_t count = 1;

  static StepTimes of(Ticks start, Ticks end) { return {start, end, end - start, 0, 1}; }
  /// End of its step number `steps` (from 1); of 0 its start.
  Ticks end_of(std::int64_t steps) const;
};

/// What an engine is and costs, for its record.
struct EngineCard {
  std::string name;
  double usd_per_h = 0, idle_w = 0, busy_w = 0;
};

/// Writes into the log what becomes of an engine's requests, of its steps, and its sums. Nobody
/// else writes these, whoever runs the steps.
class Ledger {
 public:
  /// How far the request of a slot is, close together: its record gets it at its end.
  struct Progress {
    std::int64_t request = -1;  ///< -1: it has ended
    std::int64_t output_tokens = 0;
    Ticks last_token = kNever;
    std::int64_t most_output = 0;  ///< tokens that it will generate, for who knows; 0: not asked
  };

  /// Whose record is the first in a log; all ledgers of one have the same.
  using First = std::shared_ptr<std::int64_t>;
  /// @param log grows with the numbers of requests that come. @param engine its place there
  Ledger(Log& log, std::int32_t engine, bool record_steps,
         First first = std::make_shared<std::int64_t>(0));

  RequestRecord& record(std::int64_t request) {
    const auto i = static_cast<std::size_t>(request - *first_);
    if (i >= log_.requests.size()) log_.requests.resize(i + 1);
    return log_.requests[i];
  }
  /// Whoever serves without end keeps no record of requests below this number, which have all
  /// ended, nor of the gaps between their tokens.
  void forget_before(std::int64_t request);

  void rejected(std::int64_t request, Ticks now);
  /// It is about to join the engine's queue.
  void comes(const Scheduler& scheduler, std::int64_t request, Ticks now);
  /// It has a slot: it joined the queue, or is on the way from another pool.
  void note_slot(std::int64_t request, Slot slot);
  /// It decides as time had come to, whether anything is decided or not.
  void retries(Ticks now) {
    if (record_steps_) retries_.push_back(now);
  }
  /// What a step was decided to do.
  void decided(const Scheduler& scheduler, const Batch& batch, Ticks now);
  /// Its step starts so much later, as other engines hold its devices.
  void delayed(const Scheduler& scheduler, const Batch& batch, Ticks now, Ticks delay);
  /// A request leaves before its end. Before the scheduler forgets it.
  void withdrawn(const Scheduler& scheduler, Slot slot, Ticks now);
  /// As its client has gone.
  void cancelled(std::int64_t request, Ticks now);
  /// What was held since the last change, which comes now.
  void account(const Scheduler& scheduler, Ticks now, bool busy);
  /// Blocks are in use that were not before.
  void took_blocks(const Scheduler& scheduler);

  /// A step, or the last of several at once, is done: what it brought for one of its items whose
  /// request is here, and when. Before the scheduler hears of it.
  void generated(const Sequence& s, const BatchItem& item, const Generated& g,
                 const StepTimes& times) {
    if (g.tokens == 0) return;
    Progress& p = progress(item.slot);
    note_gap(p, times);
    p.output_tokens += g.tokens;
    output_ += g.tokens;
    if (item.drafts > 0 || g.next_drafts >= 0) note_drafts(item, g);
    if (!g.ended) return;
    ++num_ended_;
    leave(s, p, record(item.request));
  }
  /// A token for each of those in lockstep, who had one of the step before too.
  void generated_in_step(std::int64_t count, const StepTimes& times) {
    num_regular_ += count;
    output_ += count;
    if (count > 0) in_step_end_ = times.end;
  }
  /// One of them leaves, with so many.
  void left_step(Slot slot, std::int64_t tokens) {
    Progress& p = progress(slot);
    p.output_tokens += tokens;
    if (tokens > 0) p.last_token = in_step_end_;
  }
  /// And all of them.
  void done(const Batch& batch, const StepTimes& times);
  /// After the scheduler has heard of it. @param num_waiting as the step was decided
  void record_step(const Scheduler& scheduler, const Batch& batch,
                   std::vector<std::int64_t> finished, const StepTimes& times,
                   std::int64_t num_waiting);
  /// Steps of the same requests before the last one, each request a token further in each.
  void took_steps(const Batch& batch, std::int64_t steps);
  /// Times between the tokens of such steps.
  void note_gaps(const Batch& batch, const StepTimes& times);
  /// What such steps held beyond what the first of them did.
  void held_more(WideSum block_ticks, WideSum slot_ticks) {
    block_ticks_ += block_ticks;
    slot_ticks_ += slot_ticks;
  }

  /// Sums into the log. @param stage_busy by stage
  void close(const Scheduler& scheduler, Ticks end, bool busy, const EngineCard& card,
             std::vector<Ticks> stage_busy);

  std::int64_t output_tokens() const { return output_; }  ///< generated by the engine
  std::int64_t prompt_tokens() const { return prompt_tokens_; }
  std::int64_t num_steps() const { return num_steps_; }
  std::int64_t num_drafts() const { return num_drafts_; }  ///< steps of a request with any
  std::int64_t drafted_tokens() const { return drafted_; }
  std::int64_t accepted_tokens() const { return accepted_; }
  Progress& progress(Slot slot) { return progress_[static_cast<std::size_t>(slot)]; }
  const Progress& progress(Slot slot) const { return progress_[static_cast<std::size_t>(slot)]; }
  /// Computed since the last token was generated.
  std::int64_t tokens_in_vain() const { return scheduled_tokens_ - scheduled_before_; }

 private:
  /// Gaps that are the step itself are counted together; others stand alone.
  void note_gap(Progress& p, const StepTimes& times) {
    if (p.last_token == times.start) {
      ++num_regular_;
    } else {
      note_other_gap(p, times.start + times.first);
    }
    p.last_token = times.end;
  }
  void note_drafts(const BatchItem& item, const Generated& g);
  void note_other_gap(const Progress& p, Ticks first_end);
  void note_regular_gaps(const Batch& batch, const StepTimes& times);
  void note_limit(const Scheduler& scheduler, Limit limit, Ticks now);
  void admit(const Sequence& s, Ticks now);
  void stop_waiting(RequestRecord& record) const;
  void leave(const Sequence& s, Progress& p, RequestRecord& record) const;

  Log& log_;
  First first_;
  std::int32_t engine_;
  bool record_steps_;
  std::vector<Progress> progress_;  ///< [slot]

  Limit limit_ = Limit::none;
  Ticks limit_since_ = 0;
  std::array<Ticks, kNumLimits> limit_ticks_{};

  WideSum block_ticks_ = 0, slot_ticks_ = 0, unusable_ticks_ = 0;
  Ticks refused_ticks_ = 0, busy_ = 0, since_ = 0;
  std::int64_t num_steps_ = 0, num_ended_ = 0, num_cancelled_ = 0;
  std::int64_t scheduled_tokens_ = 0, prompt_tokens_ = 0, most_blocks_ = 0;
  std::int64_t output_ = 0, num_regular_ = 0;
  Ticks in_step_end_ = kNever;  ///< of the last step of those in lockstep
  std::int64_t output_before_ = 0, scheduled_before_ = 0;  ///< at the last step that generated any
  std::vector<Ticks> retries_;
  std::vector<DraftRecord> drafts_;  ///< of the step that is done
  std::int64_t drafted_ = 0, accepted_ = 0, num_drafts_ = 0;
};

}  // namespace tessera::serving
