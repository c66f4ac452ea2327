#pragma once

#include <cstdint>
#include <vector>

#include "tessera/serving/log.h"
#include "tessera/serving/traffic.h"

namespace tessera::serving {

/// Samples of the state at equal distances, which doubles as a run gets long.
class StateSamples {
 public:
  /// Half as many as there may be while requests come, where that is known.
  explicit StateSamples(const Traffic& traffic);

  Ticks next() const { return next_; }  ///< when one is due
  /// The state before what happens then. @param state with the tokens generated so far
  void add(StateSample state);
  /// All of them, up to the end of a run.
  std::vector<StateSample> take(Ticks end);

 private:
  std::vector<StateSample> samples_;
  Ticks next_ = 0, every_ = kTicksPerSecond / 100;
  std::int64_t output_ = 0;  ///< as of the last one
};

}  // namespace tessera::serving
