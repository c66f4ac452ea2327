// Stretches of decode steps of the same requests: how far they go, where they are cut, and what
// they add up to.

#include <algorithm>
#include <limits>

#include "engine_run.h"

namespace tessera::serving {
namespace {

/// Beyond every run's end where it does not fit.
Ticks stretch_ticks(Ticks first, Ticks slope, std::int64_t steps) {
  const WideTicks n = steps;
  return static_cast<Ticks>(std::min<WideTicks>(n * first + slope * (n * (n - 1) / 2), kNever / 2));
}

}  // namespace

Ticks StepUnderWay::end_of(std::int64_t steps) const {
  return start + stretch_ticks(first, slope, steps);
}

void StepUnderWay::go_on_from(const StepUnderWay& step) {
  start = step.end;
  first = step.first + step.slope * step.count;
  slope = 0;
  end = start + first;
}

std::int64_t StepUnderWay::steps_until(Ticks time) const {
  std::int64_t low = 0, high = count;  // low ends before `time`, high does not (or is the last)
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (end_of(middle) < time ? low : high) = middle;
  }
  return high;
}

// The first step has been decided; how many like it follow, if nothing comes?
void EngineRun::plan_stretch(StepUnderWay& step) const {
  const Batch& batch = step.batch;
  const auto count = static_cast<std::int64_t>(batch.items.size());
  const std::int64_t num_decodes = batch.load.num_decodes;  // with those that are padding
  if (count == 0 || num_decodes != count + batch.load.num_idle ||
      batch.load.decode_tokens != num_decodes || batch.swapped_blocks > 0) {
    return;
  }
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const BatchItem& item : batch.items) {
    const std::int64_t to_come = scheduler_->sequence(item.slot).num_under_way - 1;
    const Progress& p = progress_[static_cast<std::size_t>(item.slot)];
    if (p.request != item.request) return;
    most = std::min(most, p.most_output - p.output_tokens - to_come - 1);
    if (most <= 0) return;
  }
  const auto line = replica_.cost->decode_line(num_decodes, batch.load.decode_context_tokens);
  if (!line) return;
  most =
      std::min(most, (line->last_context_tokens - batch.load.decode_context_tokens) / num_decodes);
  const std::int64_t more = scheduler_->repeats(batch, most);
  if (more <= 0) return;
  step.is_followed = scheduler_->decides_ahead();
  step.count = more + (step.is_followed ? 0 : 1);
  step.slope = line->ticks_per_token * num_decodes;
  step.end = step.start + stretch_ticks(step.first, step.slope, step.count);
  if (step.end > horizon_) end_by_horizon(step);
}

// Of single steps those that end by the horizon are done; so it is with those of a stretch.
void EngineRun::end_by_horizon(StepUnderWay& step) const {
  step.count = std::max<std::int64_t>(1, step.steps_until(horizon_ + 1) - 1);
  step.end = step.start + stretch_ticks(step.first, step.slope, step.count);
}

void EngineRun::cut_stretch(Ticks now) {
  const auto it = std::find_if(under_way_.begin(), under_way_.end(),
                               [](const StepUnderWay& step) { return step.is_stretch(); });
  if (it == under_way_.end()) return;
  StepUnderWay& step = *it;
  if (step.is_followed && !next_is_decided(step, now)) {
    step.is_followed = false;
    step.count = 1;
    step.end = step.start + step.first;
    under_way_.pop_back();
    return renew(step);
  }
  const std::int64_t steps = step.steps_until(now);
  if (steps >= step.count) return;
  step.end = step.end_of(steps);
  step.count = steps;
  renew(step);
  if (!step.is_followed) return;
  under_way_.back().go_on_from(step);
  renew(under_way_.back());
}

// What the steps of a stretch hold beyond what its first one does: step j (from 0) j tokens more of
// each request, and each block from the start of the step that needs it.
void EngineRun::account_stretch(const StepUnderWay& step, Ticks until) {
  const auto wide = [](std::int64_t value) { return static_cast<WideSum>(value); };
  const WideSum n = wide(step.count - 1), count = wide(std::ssize(step.batch.items));
  const WideSum sum_j = n * (n + 1) / 2, sum_jj = n * (n + 1) * (2 * n + 1) / 6;
  slot_ticks_ += count * (wide(step.first) * sum_j + wide(step.slope) * sum_jj);
  if (step.is_followed) slot_ticks_ += count * wide(until - step.start);  // a step earlier each
  for_each_taken(step, [&](Ticks time) { block_ticks_ += wide(until - time); });
}

void EngineRun::catch_up(Ticks now) {
  if (under_way_.empty() || !under_way_.front().is_stretch()) return;
  StepUnderWay& step = under_way_.front();
  const std::int64_t over = step.steps_until(now) - 1;
  if (over <= 0) return;
  const StepUnderWay whole = step;
  step.count = over;
  step.end = whole.end_of(over);
  account(step.end);
  account_stretch(step, step.end);
  step.generated.assign(step.batch.items.size(), {.tokens = 1});
  note_gaps(step);
  take_steps(step, over);
  step.start = step.end;
  step.first += step.slope * over;
  step.count = whole.count - over;
  step.end = whole.end;
  stage_free_[0] = step.end_of(1);
  stage_busy_[0] += stage_free_[0] - whole.end_of(1);
}

void EngineRun::catch_up_ahead(Ticks now) {
  if (under_way_.empty() || !under_way_.front().is_followed) return;
  StepUnderWay& step = under_way_.front();
  account(now);
  account_stretch(step, now);
  take_next(step, under_way_[1]);
  step.is_followed = false;
}

// Steps that are over: the batch is then that of the step after.
void EngineRun::take_steps(StepUnderWay& step, std::int64_t steps) {
  scheduler_->repeat(step.batch, steps);
  for (const BatchItem& item : step.batch.items) {
    progress_of(item).output_tokens += steps;
  }
  const auto count = static_cast<std::int64_t>(step.batch.items.size());
  scheduled_tokens_ += steps * count;
  output_ += steps * count;
  num_steps_ += steps;
  most_blocks_ =
      std::max(most_blocks_, scheduler_->kv().num_blocks() - scheduler_->kv().num_free());
}

// Decided ahead, the step after its last one.
void EngineRun::take_next(StepUnderWay& step, StepUnderWay& next) {
  next.batch = step.batch;
  scheduler_->follow(next.batch);
  next.num_waiting = step.num_waiting;
  stage_busy_[0] += next.end - next.start;
  stage_free_[0] = next.end;
  most_blocks_ =
      std::max(most_blocks_, scheduler_->kv().num_blocks() - scheduler_->kv().num_free());
}

void EngineRun::commit_stretch(StepUnderWay& step) {
  if (!step.is_stretch()) return;
  take_steps(step, step.count - 1);
  stage_busy_[0] += step.end - step.start - step.first;
  stage_free_[0] = step.end;
  if (step.is_followed) take_next(step, under_way_.front());
}

}  // namespace tessera::serving
