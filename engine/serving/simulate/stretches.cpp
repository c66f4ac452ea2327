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
  if (step.is_followed && now <= step.start) {  // its second step is not decided yet
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
void EngineRun::account_stretch(const StepUnderWay& step) {
  const auto wide = [](std::int64_t value) { return static_cast<WideSum>(value); };
  const WideSum n = wide(step.count - 1), count = wide(std::ssize(step.batch.items));
  const WideSum sum_j = n * (n + 1) / 2, sum_jj = n * (n + 1) * (2 * n + 1) / 6;
  slot_ticks_ += count * (wide(step.first) * sum_j + wide(step.slope) * sum_jj);
  if (step.is_followed) slot_ticks_ += count * wide(step.end - step.start);  // a step earlier each
  for_each_taken(step, [&](Ticks time) { block_ticks_ += wide(step.end - time); });
}

void EngineRun::commit_stretch(StepUnderWay& step) {
  if (!step.is_stretch()) return;
  const std::int64_t more = step.count - 1;
  scheduler_->repeat(step.batch, more);
  for (const BatchItem& item : step.batch.items) {
    progress_of(item).output_tokens += more;
  }
  const auto count = static_cast<std::int64_t>(step.batch.items.size());
  scheduled_tokens_ += more * count;
  output_ += more * count;
  num_steps_ += more;
  stage_busy_[0] += step.end - step.start - step.first;
  stage_free_[0] = step.end;
  if (step.is_followed) {
    StepUnderWay& next = under_way_.front();
    next.batch = step.batch;
    scheduler_->follow(next.batch);
    next.num_waiting = step.num_waiting;
    stage_busy_[0] += next.end - next.start;
    stage_free_[0] = next.end;
  }
  most_blocks_ =
      std::max(most_blocks_, scheduler_->kv().num_blocks() - scheduler_->kv().num_free());
}

}  // namespace tessera::serving
