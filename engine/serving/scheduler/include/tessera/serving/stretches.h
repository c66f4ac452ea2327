#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/serving/scheduler.h"

namespace tessera::serving {

/// Decode steps of a scheduler that are decided alike, taken at once: a simulator's shortcut.
class Stretches {
 public:
  explicit Stretches(Scheduler& scheduler) : scheduler_(scheduler) {}

  /// After `decide` and before `complete` of a batch in which every running request decodes one
  /// token: how many more such steps, at most `most`, would be decided just the same if no request
  /// came or ended.
  std::int64_t repeats(const Batch& batch, std::int64_t most) const {
    return scheduler_.repeats(batch, most);
  }
  /// Decides the next `steps` of these steps at once, each request one token further in each;
  /// only where `repeats` allowed as many. The batch's last one is left to `complete`.
  void repeat(Batch& batch, std::int64_t steps);
  /// Decides one more of them, while the batch's last one is under way: `batch` is that next one.
  void follow(Batch& batch);

 private:
  Scheduler& scheduler_;
  std::vector<std::pair<std::int64_t, std::size_t>> events_;  ///< step and item
};

}  // namespace tessera::serving
