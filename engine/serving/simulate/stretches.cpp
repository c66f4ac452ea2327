// Stretches of decode steps of the same requests: how far they go, where they are cut, and what
// they add up to. All sums are in closed form and in integers, so that they are what single steps
// give.

#include <algorithm>
#include <limits>

#include "engine_run.h"

namespace tessera::serving {

void EngineRun::Flight::go_on_from(const StepTimes& before) {
  times = StepTimes::of(before.end, before.end + before.first + before.slope * before.count);
}

std::int64_t EngineRun::Flight::steps_until(Ticks time) const {
  std::int64_t low = 0, high = times.count;  // low ends before, high does not (or is the last)
  while (low + 1 < high) {
    const std::int64_t middle = low + (high - low) / 2;
    (times.end_of(middle) < time ? low : high) = middle;
  }
  return high;
}

// The first step has been decided; how many like it follow, if nothing comes?
void EngineRun::plan_stretch(const Batch& batch, Flight& flight) {
  const auto count = static_cast<std::int64_t>(batch.items.size());
  const std::int64_t num_decodes = batch.load.num_decodes;  // with those that are padding
  if (count == 0 || num_decodes != count + batch.load.num_idle ||
      batch.load.decode_tokens != num_decodes || !batch.moves.empty() || batch.lockstep >= 0) {
    return;
  }
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const BatchItem& item : batch.items) {
    Ledger::Progress& p = core_.ledger().progress(item.slot);
    if (p.request != item.request) return;
    const std::int64_t to_come = scheduler().sequence(item.slot).num_under_way;
    most = std::min(most, output_of(p) - p.output_tokens - to_come);
    if (most <= 0) return;
  }
  const auto line = replica_.cost->decode_line(num_decodes, batch.load.decode_context_tokens);
  if (!line) return;
  most =
      std::min(most, (line->last_context_tokens - batch.load.decode_context_tokens) / num_decodes);
  const std::int64_t more = stretches_.repeats(batch, most);
  if (more <= 0) return;
  StepTimes& times = flight.times;
  flight.is_followed = scheduler().decides_ahead();
  times.count = more + (flight.is_followed ? 0 : 1);
  times.slope = line->ticks_per_token * num_decodes;
  times.end = times.end_of(times.count);
  if (times.end > horizon_) end_by_horizon(times);
}

// Of single steps those that end by the horizon are done; so it is with those of a stretch.
void EngineRun::end_by_horizon(StepTimes& times) const {
  const Flight flight{.times = times};
  times.count = std::max<std::int64_t>(1, flight.steps_until(horizon_ + 1) - 1);
  times.end = times.end_of(times.count);
}

void EngineRun::cut_stretch(Ticks now) {
  const auto it = std::find_if(flights_.begin(), flights_.end(),
                               [](const Flight& flight) { return flight.is_stretch(); });
  if (it == flights_.end()) return;
  StepTimes& times = it->times;
  if (it->is_followed && !next_is_decided(*it, now)) {
    it->is_followed = false;
    times = StepTimes::of(times.start, times.start + times.first);
    flights_.pop_back();
    core_.pop_empty();
    return renew(*it);
  }
  const std::int64_t steps = it->steps_until(now);
  if (steps >= times.count) return;
  times.end = times.end_of(steps);
  times.count = steps;
  renew(*it);
  if (!it->is_followed) return;
  flights_.back().go_on_from(times);
  renew(flights_.back());
}

void EngineRun::catch_up(Ticks now) {
  if (flights_.empty() || !flights_.front().is_stretch()) return;
  StepTimes& times = flights_.front().times;
  const std::int64_t over = flights_.front().steps_until(now) - 1;
  if (over <= 0) return;
  Batch& batch = core_.under_way(0).batch;
  Flight part = flights_.front();
  part.times.count = over;
  part.times.end = times.end_of(over);
  core_.account(part.times.end);
  account_stretch(batch, part, part.times.end);
  core_.ledger().note_gaps(batch, part.times);
  take_steps(batch, over);
  const Ticks first_end = times.end_of(1);
  times = {part.times.end, times.end, times.first + times.slope * over, times.slope,
           times.count - over};
  stages_.go_on(0, first_end, times.end_of(1));
}

void EngineRun::catch_up_ahead(Ticks now) {
  if (flights_.empty() || !flights_.front().is_followed) return;
  const Work& work = core_.under_way(0);
  core_.account(now);
  account_stretch(work.batch, flights_.front(), now);
  take_next(work, core_.under_way(1), flights_[1].times);
  flights_.front().is_followed = false;
}

// What the steps of a stretch hold beyond what its first one does: step j (from 0) j tokens more of
// each request, and each block from the start of the step that needs it.
void EngineRun::account_stretch(const Batch& batch, const Flight& flight, Ticks until) {
  const auto wide = [](std::int64_t value) { return static_cast<WideSum>(value); };
  const StepTimes& times = flight.times;
  const WideSum n = wide(times.count - 1), count = wide(std::ssize(batch.items));
  const WideSum sum_j = n * (n + 1) / 2, sum_jj = n * (n + 1) * (2 * n + 1) / 6;
  WideSum slots = count * (wide(times.first) * sum_j + wide(times.slope) * sum_jj), blocks = 0;
  if (flight.is_followed) slots += count * wide(until - times.start);  // a step earlier each
  for_each_taken(batch, flight, [&](Ticks time) { blocks += wide(until - time); });
  core_.ledger().held_more(blocks, slots);
}

// Steps that are over: the batch is then that of the step after.
void EngineRun::take_steps(Batch& batch, std::int64_t steps) {
  stretches_.repeat(batch, steps);
  core_.ledger().took_steps(batch, steps);
  core_.ledger().took_blocks(scheduler());
}

// Decided ahead, the step after a stretch's last one.
void EngineRun::take_next(const Work& work, Work& next, const StepTimes& times) {
  next.batch = work.batch;
  stretches_.follow(next.batch);
  next.num_waiting = work.num_waiting;
  stages_.go_on(0, times.start, times.end);
  core_.ledger().took_blocks(scheduler());
}

}  // namespace tessera::serving
