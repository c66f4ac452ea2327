#include "tessera/run/live_clock.h"

#include <algorithm>
#include <thread>

namespace tessera::run {
namespace {

// Ctrl-C is looked for between two of them.
constexpr std::chrono::milliseconds kLongestSleep(50);

}  // namespace

void WallClock::wait_until(serving::Ticks time) {
  if (!start_) start_ = std::chrono::steady_clock::now();
  const auto since = [&] { return std::chrono::steady_clock::now() - *start_; };
  const auto left = std::chrono::nanoseconds(time / 1000) - since();
  if (left > left.zero()) {
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kLongestSleep));
  }
  now_ = std::chrono::duration_cast<std::chrono::nanoseconds>(since()).count() * 1000;
}

void ModelClock::wait_until(serving::Ticks time) { now_ = std::max(now_, time); }

}  // namespace tessera::run
