#include "tessera/serving/stage_clocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/core/error.h"

namespace tessera::serving {

StageClocks::StageClocks(const StepCost& cost, Ticks swap_per_block)
    : cost_(cost),
      swap_per_block_(swap_per_block),
      own_(cost.num_stages()),
      clocks_(cost.num_stages()),
      busy_(cost.num_stages(), 0),
      link_free_(cost.num_stages(), 0) {
  for (std::size_t k = 0; k < own_.size(); ++k) clocks_[k] = {&own_[k]};
}

Ticks StageClocks::free_at(std::size_t stage) const {
  Ticks free = 0;
  for (const DeviceClock* clock : clocks_[stage]) free = std::max(free, clock->free());
  return free;
}

void StageClocks::use(std::size_t stage, Ticks start, Ticks end, Ticks now) {
  for (DeviceClock* clock : clocks_[stage]) clock->use(start, end, now);
  busy_[stage] += end - start;
  if (stage == 0) own_free_ = end;
}

// A step on a stage or a link, from `at` on, which is `free` then.
Ticks StageClocks::pass(std::vector<Pass>* passes, Ticks at, Ticks& free, Ticks ticks) const {
  const bool queues = cost_.has_queues();
  if (!queues || ticks > 0) at = std::max(at, free);
  if (ticks < 0 || ticks > kNever / 2 - at) {
    throw Error(ErrorCode::out_of_range,
                fmt::format("the run passes {} s; fewer requests or a higher rate end earlier",
                            kLongestRun_s));
  }
  if (passes != nullptr) passes->push_back({at, ticks});
  if (!queues || ticks > 0) free = at + ticks;
  return at + ticks;
}

StepTimes StageClocks::take(const Batch& batch, Ticks now, std::vector<Pass>* passes) {
  const StepLoad& load = batch.load;
  const bool queues = cost_.has_queues();
  const Ticks start = queues ? now : std::max(now, free_at(0));
  delay_by_others_ = queues ? 0 : start - std::max(now, own_free_);
  Ticks at = start;
  for (std::size_t k = 0; k < busy_.size(); ++k) {
    Ticks ticks = cost_.stage(load, k);
    if (k == 0) ticks += swap_per_block_ * static_cast<Ticks>(batch.moves.size());
    Ticks free = free_at(k);
    at = pass(passes, at, free, ticks);
    if (!queues || ticks > 0) use(k, at - ticks, at, now);
    if (k + 1 == busy_.size()) break;
    Ticks no_queue = 0;
    at = pass(passes, at, queues ? link_free_[k] : no_queue, cost_.hop(load, k));
  }
  return StepTimes::of(start, at);
}

}  // namespace tessera::serving
