#include "tessera/serving/device_clock.h"

#include <algorithm>

namespace tessera::serving {

Ticks DeviceClock::busy_before(Ticks end) const {
  Ticks busy = 0;
  for (auto span = spans_.rbegin(); span != spans_.rend() && span->end > end - window_; ++span) {
    busy += std::max<Ticks>(0, std::min(span->end, end) - std::max(span->start, end - window_));
  }
  return busy;
}

Ticks DeviceClock::busy_until(Ticks end) const {
  Ticks busy = busy_;
  for (auto span = spans_.rbegin(); span != spans_.rend() && span->end > end; ++span) {
    busy -= span->end - std::max(span->start, end);
  }
  return busy;
}

}  // namespace tessera::serving
