#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
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
    while (events_.empty() && !woken_) {
      if (!wait(lock, deadline)) break;
    }
    woken_ = false;
    if (events_.empty()) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  /// As Transport has it.
  std::optional<Event> await(const std::function<Wanted(const Event&)>& judge,
                             Nanoseconds deadline) {
    std::unique_lock lock(mutex_);
    do {
      for (auto event = events_.begin(); event != events_.end(); ++event) {
        const Wanted wanted = judge(*event);
        if (wanted == Wanted::no) continue;
        if (wanted == Wanted::ends) return std::nullopt;
        Event taken = std::move(*event);
        events_.erase(event);
        return taken;
      }
    } while (wait(lock, deadline));
    return std::nullopt;
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
  // Until something may have changed; false at the deadline. A sleep ends 0.05 to 0.1 ms late, so
  // that the end of a wait is waited for awake.
  bool wait(std::unique_lock<std::mutex>& lock, Nanoseconds deadline) {
    constexpr Nanoseconds kAwake = 150'000;
    if (deadline == kNoTime) {
      changed_.wait(lock);
      return true;
    }
    const Nanoseconds left = deadline - clock_now();
    if (left <= 0) return false;
    if (left > kAwake) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left - kAwake));
    } else {
      lock.unlock();
      lock.lock();
    }
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  bool woken_ = false;
};

}  // namespace tessera::run
