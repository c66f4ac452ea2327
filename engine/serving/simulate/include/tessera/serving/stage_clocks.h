#pragma once

#include <cstddef>
#include <vector>

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
  void share(std::size_t stage, std::vector<Ticks*> clocks) { clocks_[stage] = std::move(clocks); }

  /// Sends a step on its way that is decided now. @param passes over stages and links, in order;
  /// null: nobody wants them
  /// @throws Error{out_of_range} for a time beyond every run's end
  StepTimes take(const Batch& batch, Ticks now, std::vector<Pass>* passes = nullptr);

  void hold(std::size_t stage, Ticks until) {
    for (Ticks* clock : clocks_[stage]) *clock = until;
  }
  void add_busy(std::size_t stage, Ticks ticks) { busy_[stage] += ticks; }
  const std::vector<Ticks>& busy() const { return busy_; }  ///< by stage

 private:
  Ticks free_at(std::size_t stage) const;
  Ticks pass(std::vector<Pass>* passes, Ticks at, Ticks& free, Ticks ticks) const;

  const StepCost& cost_;
  Ticks swap_per_block_;
  std::vector<Ticks> own_;                   ///< [stage] where no devices are named
  std::vector<std::vector<Ticks*>> clocks_;  ///< [stage] of its devices
  std::vector<Ticks> busy_, link_free_;
};

}  // namespace tessera::serving
