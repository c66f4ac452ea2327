#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "tessera/run/transport.h"

namespace tessera::run {

/// Of the machine, from an arbitrary start; it never goes back.
inline Nanoseconds clock_now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// What happened on links, from their thread to the one that runs.
class EventQueue {
 public:
  /// The next event; nothing until our time `deadline`, or after wake().
  std::optional<Event> next(Nanoseconds deadline) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return !events_.empty() || woken_; };
    if (deadline == kNoTime) {
      changed_.wait(lock, ready);
    } else if (!ready()) {
      const auto left = std::chrono::nanoseconds(std::max<Nanoseconds>(0, deadline - clock_now()));
      changed_.wait_for(lock, left, ready);
    }
    woken_ = false;
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  void push(Event event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    changed_.notify_one();
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool woken_ = false;
};

}  // namespace tessera::run
