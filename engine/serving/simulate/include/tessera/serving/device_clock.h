#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// When a device is free, and where somebody asks, when it was busy: one step at a time, so that
/// its steps follow each other. What is older than its window is kept as a sum.
class DeviceClock {
 public:
  DeviceClock() = default;
  explicit DeviceClock(Ticks window) : window_(window) {}

  Ticks free() const { return free_; }
  /// It is busy from `start` on, when it is free. @param now nobody asks of a window that ends
  /// more than a second before
  void use(Ticks start, Ticks end, Ticks now) {
    free_ = end;
    if (window_ != kNever) note(start, end, now);
  }

  /// Busy time in (end - window, end].
  Ticks busy_before(Ticks end) const;
  /// Busy time from the start of the run up to `end`, which is not long ago.
  Ticks busy_until(Ticks end) const;

 private:
  void note(Ticks start, Ticks end, Ticks now) {
    if (end <= start) return;
    busy_ += end - start;
    if (!spans_.empty() && spans_.back().end == start) {
      spans_.back().end = end;
      return;
    }
    spans_.push_back({start, end});
    while (spans_.front().end < now - window_ - kTicksPerSecond) spans_.pop_front();
  }

  struct Span {
    Ticks start = 0, end = 0;
  };
  Ticks window_ = kNever, free_ = 0, busy_ = 0;
  std::deque<Span> spans_;
};

/// Of the devices that engines name.
using DeviceClocks = std::map<std::int32_t, DeviceClock>;

}  // namespace tessera::serving
