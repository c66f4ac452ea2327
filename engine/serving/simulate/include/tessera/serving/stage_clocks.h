#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "tessera/serving/device_clock.h"
#include "tessera/serving/ledger.h"
#include "tessera/serving/scheduler.h"
#include "tessera/serving/step_cost.h"

namespace tessera::serving {

/// A step on a stage, or on a link.
struct Pass {
  Ticks start = 0, duration = 0;
};

/// When stages and links of an engine are free, and with that when its steps start and end: time as
/// the latency model has it.
class StageClocks {
 public:
  /// @param swap_per_block of a block that is moved before a step
  StageClocks(const StepCost& cost, Ticks swap_per_block);
  StageClocks(const StageClocks&) = delete;
  StageClocks& operator=(const StageClocks&) = delete;

  /// A stage is computed by devices that others use too, and waits for all of them.
  void share(std::size_t stage, std::vector<DeviceClock*> clocks) {
    clocks_[stage] = std::move(clocks);
  }

  /// Sends a step on its way that is decided now. @param passes over stages and links, in order;
  /// null: nobody wants them
  /// @throws Error{out_of_range} for a time beyond every run's end
  StepTimes take(const Batch& batch, Ticks now, std::vector<Pass>* passes = nullptr);

  /// More steps like it, one after the other.
  void go_on(std::size_t stage, Ticks from, Ticks until) { use(stage, from, until, from); }
  /// How long the step that was sent last waits for devices that other engines hold.
  Ticks delay_by_others() const { return delay_by_others_; }
  const std::vector<Ticks>& busy() const { return busy_; }  ///< by stage

 private:
  Ticks free_at(std::size_t stage) const;
  void use(std::size_t stage, Ticks start, Ticks end, Ticks now);
  Ticks pass(std::vector<Pass>* passes, Ticks at, Ticks& free, Ticks ticks) const;

  const StepCost& cost_;
  Ticks swap_per_block_;
  std::vector<DeviceClock> own_;                   ///< [stage] where no devices are named
  std::vector<std::vector<DeviceClock*>> clocks_;  ///< [stage] of its devices
  std::vector<Ticks> busy_, link_free_;
  Ticks own_free_ = 0;  ///< first stage, as far as this engine itself holds it
  Ticks delay_by_others_ = 0;
};

}  // namespace tessera::serving
