#include "tessera/serving/ledger.h"

#include <algorithm>
#include <utility>

namespace tessera::serving {
namespace {

double as_double(WideSum value) { return static_cast<double>(value); }

std::int64_t used_blocks(const Scheduler& scheduler) {
  return scheduler.kv().num_blocks() - scheduler.kv().num_free();
}

/// Free slots in holes that are too small for the first in the queue.
std::int64_t unusable_slots(const Scheduler& scheduler) {
  const Sequence* first = scheduler.first_waiting();
  if (first == nullptr) return 0;
  return scheduler.kv().unusable_blocks(first->most_tokens()) * scheduler.kv().block_size();
}

}  // namespace

// Beyond every run's end where it does not fit.
Ticks StepTimes::end_of(std::int64_t steps) const {
  const WideTicks n = steps;
  return start +
         static_cast<Ticks>(std::min<WideTicks>(n * first + slope * (n * (n - 1) / 2), kNever / 2));
}

Ledger::Ledger(Log& log, std::int32_t engine, bool record_steps, First first)
    : log_(log), first_(std::move(first)), engine_(engine), record_steps_(record_steps) {}

void Ledger::forget_before(std::int64_t request) {
  log_.gaps.clear();
  const std::int64_t count = std::min(request - *first_, std::ssize(log_.requests));
  if (count < std::ssize(log_.requests) / 2) return;  // so that each is moved once or twice
  log_.requests.erase(log_.requests.begin(), log_.requests.begin() + count);
  *first_ += count;
}

void Ledger::rejected(std::int64_t request, Ticks now) {
  RequestRecord& r = record(request);
  if (r.taken == kNever) r.taken = now;
  r.outcome = Outcome::rejected;
  r.replica = engine_;
}

void Ledger::comes(const Scheduler& scheduler, std::int64_t request, Ticks now) {
  note_limit(scheduler, limit_, now);
  RequestRecord& r = record(request);
  if (r.taken == kNever) r.taken = now;
  if (r.first_scheduled != kNever) return;
  for (std::size_t i = 0; i < kNumLimits; ++i) r.waited[i] -= limit_ticks_[i];
}

void Ledger::stop_waiting(RequestRecord& record) const {
  for (std::size_t i = 0; i < kNumLimits; ++i) record.waited[i] += limit_ticks_[i];
}

void Ledger::note_slot(std::int64_t request, Slot slot) {
  const auto i = static_cast<std::size_t>(slot);
  if (i >= progress_.size()) progress_.resize(i + 1);
  const RequestRecord& r = record(request);
  progress_[i] = {.request = request, .output_tokens = r.output_tokens, .last_token = r.last_token};
}

void Ledger::note_limit(const Scheduler& scheduler, Limit limit, Ticks now) {
  if (now > limit_since_) {
    const Ticks spent = now - limit_since_;
    limit_ticks_[static_cast<std::size_t>(limit_)] += spent;
    if (limit_ == Limit::blocks) {
      refused_ticks_ += spent;
      unusable_ticks_ +=
          static_cast<WideSum>(unusable_slots(scheduler)) * static_cast<WideSum>(spent);
    }
    limit_since_ = now;
  }
  limit_ = limit;
}

void Ledger::decided(const Scheduler& scheduler, const Batch& batch, Ticks now) {
  note_limit(scheduler, batch.limit, now);
  for (const Slot slot : batch.admitted) admit(scheduler.sequence(slot), now);
}

void Ledger::delayed(const Scheduler& scheduler, const Batch& batch, Ticks now, Ticks delay) {
  for (const Slot slot : batch.admitted) {
    RequestRecord& r = record(scheduler.sequence(slot).request);
    if (r.first_scheduled != now) continue;  // it was admitted before
    r.first_scheduled += delay;
    r.waited[static_cast<std::size_t>(Limit::none)] += delay;
  }
}

void Ledger::admit(const Sequence& s, Ticks now) {
  RequestRecord& r = record(s.request);
  if (r.decode_started == kNever) r.decode_started = now;
  if (r.first_scheduled != kNever) return;
  r.first_scheduled = now;
  r.cached_tokens = s.cached_tokens;
  stop_waiting(r);
}

void Ledger::took_blocks(const Scheduler& scheduler) {
  most_blocks_ = std::max(most_blocks_, used_blocks(scheduler));
}

void Ledger::account(const Scheduler& scheduler, Ticks now, bool busy) {
  if (now <= since_) return;
  const auto spent = static_cast<WideSum>(now - since_);
  since_ = now;
  block_ticks_ += static_cast<WideSum>(used_blocks(scheduler)) * spent;
  slot_ticks_ += static_cast<WideSum>(scheduler.slots_held()) * spent;
  if (busy) busy_ += static_cast<Ticks>(spent);
}

void Ledger::took_steps(const Batch& batch, std::int64_t steps) {
  for (const BatchItem& item : batch.items) progress(item.slot).output_tokens += steps;
  const std::int64_t tokens = steps * std::ssize(batch.items);
  scheduled_tokens_ += tokens;
  output_ += tokens;
  num_steps_ += steps;
}

void Ledger::note_gaps(const Batch& batch, const StepTimes& times) {
  for (const BatchItem& item : batch.items) note_gap(progress(item.slot), times);
  note_regular_gaps(batch, times);
}

void Ledger::note_other_gap(const Progress& p, Ticks first_end) {
  if (p.last_token == kNever) {
    record(p.request).first_token = first_end;
  } else {
    log_.gaps.push_back({first_end - p.last_token, 0, 1, 1});
  }
}

void Ledger::note_drafts(const BatchItem& item, const Generated& g) {
  if (item.drafts > 0) {
    ++num_drafts_;
    drafted_ += item.drafts;
    accepted_ += g.accepted;
  }
  if (record_steps_) {
    drafts_.push_back({item.request, item.drafts, g.accepted, g.ended ? -1 : g.next_drafts});
  }
}

void Ledger::note_regular_gaps(const Batch& batch, const StepTimes& times) {
  const std::int64_t regular = std::exchange(num_regular_, 0), count = std::ssize(batch.items);
  if (times.count == 1) {
    if (regular > 0) log_.gaps.push_back({times.end - times.start, 0, 1, regular});
  } else if (regular == count) {
    log_.gaps.push_back({times.first, times.slope, times.count, count});
  } else {
    if (regular > 0) log_.gaps.push_back({times.first, 0, 1, regular});
    log_.gaps.push_back({times.first + times.slope, times.slope, times.count - 1, count});
  }
}

void Ledger::done(const Batch& batch, const StepTimes& times) {
  scheduled_tokens_ += batch.load.tokens - batch.load.num_idle;
  for (const PromptChunk& chunk : batch.load.chunks) prompt_tokens_ += chunk.tokens;
  ++num_steps_;
  note_regular_gaps(batch, times);
  if (output_ == output_before_) return;
  output_before_ = output_;
  scheduled_before_ = scheduled_tokens_;
}

void Ledger::leave(const Sequence& s, Progress& p, RequestRecord& r) const {
  r.num_preemptions += s.num_preemptions;
  r.recomputed_tokens += s.recomputed_tokens;
  r.replica = engine_;
  r.output_tokens = p.output_tokens;
  r.last_token = p.last_token;
  p.request = -1;
}

void Ledger::withdrawn(const Scheduler& scheduler, Slot slot, Ticks now) {
  note_limit(scheduler, limit_, now);
  const Sequence& s = scheduler.sequence(slot);
  RequestRecord& r = record(s.request);
  if (r.first_scheduled == kNever) stop_waiting(r);
  Progress& p = progress(slot);
  if (p.request == s.request) leave(s, p, r);  // else it is held here
}

void Ledger::cancelled(std::int64_t request, Ticks now) {
  RequestRecord& r = record(request);
  r.outcome = Outcome::cancelled;
  r.cancelled = now;
  ++num_cancelled_;
}

void Ledger::record_step(const Scheduler& scheduler, const Batch& batch,
                         std::vector<std::int64_t> finished, const StepTimes& times,
                         std::int64_t num_waiting) {
  if (!record_steps_) return;
  StepRecord row;
  row.step = num_steps_ - 1;
  row.replica = engine_;
  row.start = times.start;
  row.duration = times.end - times.start;
  for (const BatchItem& item : batch.items) row.scheduled.push_back({item.request, item.tokens});
  std::sort(
      row.scheduled.begin(), row.scheduled.end(),
      [](const ScheduledTokens& a, const ScheduledTokens& b) { return a.request < b.request; });
  row.drafts = std::exchange(drafts_, {});
  std::sort(row.drafts.begin(), row.drafts.end(),
            [](const DraftRecord& a, const DraftRecord& b) { return a.request < b.request; });
  row.preempted = batch.preempted;
  std::sort(row.preempted.begin(), row.preempted.end());
  row.finished = std::move(finished);
  std::sort(row.finished.begin(), row.finished.end());
  row.free_blocks = scheduler.kv().num_free();
  row.num_waiting = num_waiting;
  row.num_running = static_cast<std::int64_t>(batch.items.size());
  row.limit = batch.limit;
  log_.steps.push_back(std::move(row));
}

void Ledger::close(const Scheduler& scheduler, Ticks end, bool busy, const EngineCard& card,
                   std::vector<Ticks> stage_busy) {
  account(scheduler, end, busy);
  note_limit(scheduler, limit_, end);
  for (const Progress& p : progress_) {
    if (p.request < 0) continue;
    RequestRecord& cut_off = record(p.request);
    cut_off.output_tokens = p.output_tokens;
    cut_off.last_token = p.last_token;
  }
  scheduler.for_each_waiting([&](const Sequence& s) {  // those that were never in a step
    RequestRecord& waiting = record(s.request);
    if (waiting.first_scheduled == kNever) stop_waiting(waiting);
  });
  ReplicaRecord sums;
  const SchedulerCounts& counts = scheduler.counts();
  sums.name = card.name;
  sums.num_steps = num_steps_;
  sums.num_requests = num_ended_;
  sums.num_cancelled = num_cancelled_;
  sums.num_preemptions = counts.num_preemptions;
  sums.num_swaps = counts.num_swaps;
  sums.scheduled_tokens = scheduled_tokens_;
  sums.prompt_tokens = prompt_tokens_;
  sums.recomputed_tokens = counts.recomputed_tokens;
  sums.prefix_queries = counts.prefix_queries;
  sums.prefix_hits = counts.prefix_hits;
  sums.drafted_tokens = drafted_;
  sums.accepted_tokens = accepted_;
  sums.num_drafts = num_drafts_;
  sums.kv_blocks = scheduler.kv().num_blocks();
  sums.most_blocks_used = most_blocks_;
  sums.busy = busy_;
  sums.block_ticks = as_double(block_ticks_);
  sums.slot_ticks = as_double(slot_ticks_);
  sums.reserved_slot_ticks =
      as_double(block_ticks_) * static_cast<double>(scheduler.kv().block_size());
  sums.unusable_slot_ticks = as_double(unusable_ticks_);
  sums.refused_ticks = static_cast<double>(refused_ticks_);
  sums.stage_busy = std::move(stage_busy);
  sums.retries = std::move(retries_);
  sums.usd_per_h = card.usd_per_h;
  sums.idle_w = card.idle_w;
  sums.busy_w = card.busy_w;
  log_.replicas.push_back(std::move(sums));
}

}  // namespace tessera::serving
