#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

/// When a search has to end: its wall-clock limit and the caller's stop flag.
class Deadline {
 public:
  explicit Deadline(const PlanRequest& request)
      : start_(Clock::now()), limit_s_(std::max(0.0, request.time_limit_s)), stop_(request.stop) {}

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double left_s() const { return std::max(0.0, limit_s_ - elapsed_s()); }

  /// Why to stop now, if at all.
  std::optional<SolveStatus> reached() const {
    if (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) {
      return SolveStatus::interrupted;
    }
    if (elapsed_s() >= limit_s_) return SolveStatus::time_limit;
    return std::nullopt;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  double limit_s_;
  const std::atomic<bool>* stop_;
};

}  // namespace tessera::solver
