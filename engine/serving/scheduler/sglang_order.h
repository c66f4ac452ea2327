#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// In which order SGLang looks at its queue (python/sglang/srt/managers/schedule_policy.py).
class SglangQueue {
 public:
  explicit SglangQueue(SglangOrder order) : order_(order) {}

  /// Joins the queue, again after a retraction.
  void enter(Slot slot);
  /// Tokens of prompts were computed: the clock by which hrrn ages those that wait.
  void computed(std::int64_t tokens) { computed_ += tokens; }

  /// Slots, the next first. `lpm` and `hrrn` are first come, first served beyond 128 requests.
  /// @param found_of found blocks of a waiting request
  const std::vector<Slot>& sorted(const WaitQueue& waiting, const std::vector<Sequence>& sequences,
                                  const BlockManager& kv,
                                  const std::function<std::int64_t(Slot)>& found_of);

 private:
  struct Entry {
    double last = 0;  ///< 1: shares a prefix with one before it that is not cached yet
    double key = 0;
    Slot slot = 0;
  };
  double key_of(const Sequence& s, Slot slot, std::int64_t cached_tokens) const;

  SglangOrder order_;
  std::vector<std::int64_t> entered_;  ///< by slot: `computed_` when it came
  std::int64_t computed_ = 0;
  std::uint64_t num_sorted_ = 0;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
};

}  // namespace tessera::serving
