#pragma once

#include <chrono>
#include <optional>

#include "tessera/serving/ticks.h"

namespace tessera::run {

/// Time of an engine that serves, from its start. What it does at once it does at one moment.
class LiveClock {
 public:
  virtual ~LiveClock() = default;
  serving::Ticks now() const { return now_; }  ///< the moment
  /// Lets time pass until then, or until a little before; another moment begins.
  virtual void wait_until(serving::Ticks time) = 0;

 protected:
  serving::Ticks now_ = 0;
};

/// Passes by itself, from the first wait on: what is made ready before that takes none of it.
class WallClock final : public LiveClock {
 public:
  void wait_until(serving::Ticks time) override;

 private:
  std::optional<std::chrono::steady_clock::time_point> start_;
};

/// Passes as far as somebody waits.
class ModelClock final : public LiveClock {
 public:
  void wait_until(serving::Ticks time) override;
};

}  // namespace tessera::run
