#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <set>
#include <tuple>
#include <vector>

#include "tessera/serving/engine_options.h"
#include "tessera/serving/ticks.h"

namespace tessera::serving {

/// Number of a live sequence within its scheduler.
using Slot = std::int32_t;

/// Requests that wait: first come first served, or by priority, then arrival, then order of coming.
class WaitQueue {
 public:
  explicit WaitQueue(QueuePolicy policy) : policy_(policy) {}

  struct Key {
    std::int32_t priority = 0;
    Ticks arrival = 0;
    std::int64_t order = 0;
    Slot slot = 0;
    auto operator<=>(const Key&) const = default;
  };

  bool empty() const { return size() == 0; }
  std::size_t size() const { return policy_ == QueuePolicy::fcfs ? queue_.size() : sorted_.size(); }
  Slot front() const {
    return policy_ == QueuePolicy::fcfs ? queue_.front() : sorted_.begin()->slot;
  }
  void pop_front() {
    if (policy_ == QueuePolicy::fcfs) {
      queue_.pop_front();
    } else {
      sorted_.erase(sorted_.begin());
    }
  }
  void push_back(const Key& key) {
    if (policy_ == QueuePolicy::fcfs) {
      queue_.push_back(key.slot);
    } else {
      sorted_.insert(key);
    }
  }
  /// Of those by priority it goes where it belongs.
  void push_front(const Key& key) {
    if (policy_ == QueuePolicy::fcfs) {
      queue_.push_front(key.slot);
    } else {
      sorted_.insert(key);
    }
  }
  /// Calls visit(slot) from the front.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Slot slot : queue_) visit(slot);
    for (const Key& key : sorted_) visit(key.slot);
  }
  /// The slots at positions [from, from + count), as far as there are any, appended to `slots`.
  void append(std::size_t from, std::size_t count, std::vector<Slot>& slots) const {
    const std::size_t end = std::min(size(), from + count);
    if (policy_ == QueuePolicy::fcfs) {
      for (std::size_t i = from; i < end; ++i) slots.push_back(queue_[i]);
      return;
    }
    auto it =
        from < end ? std::next(sorted_.begin(), static_cast<std::ptrdiff_t>(from)) : sorted_.end();
    for (std::size_t i = from; i < end; ++i) slots.push_back((it++)->slot);
  }
  /// For policies that take from the middle. @return whether it was there.
  bool remove(Slot slot) {
    for (auto it = queue_.begin(); it != queue_.end(); ++it) {
      if (*it != slot) continue;
      queue_.erase(it);
      return true;
    }
    for (auto it = sorted_.begin(); it != sorted_.end(); ++it) {
      if (it->slot != slot) continue;
      sorted_.erase(it);
      return true;
    }
    return false;
  }

 private:
  QueuePolicy policy_;
  std::deque<Slot> queue_;
  std::set<Key> sorted_;
};

}  // namespace tessera::serving
