#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/solver/instance/device_orders.h"
#include "tessera/solver/instance/planner.h"

namespace tessera::solver {

class Deadline;

enum class StartSet {
  best,  ///< the order that adabits prefers and those in which the devices of a type stand
         ///< together, each at the dozen pairs of micro-batch sizes at which adabits does best
  all    ///< LLM-PQ's Algorithm 1: every distinct order and every pair, adabits solved at each
};

/// Where a heuristic may start: adabits' plans for orders and pairs of micro-batch sizes.
class Starts {
 public:
  Starts(const Instance& instance, const PlanRequest& request, StartSet set = StartSet::best);
  ~Starts();
  /// The next start; absent when there are no more, or the time is up.
  std::optional<Candidate> next();
  /// The request with the time that is left.
  PlanRequest request() const;
  std::optional<SolveStatus> stopped_by() const { return stopped_by_; }
  /// Why the last order or pair without a start had none.
  const std::optional<Violation>& violation() const { return violation_; }

 private:
  std::optional<std::vector<std::size_t>> next_order();
  void enqueue(const std::vector<std::size_t>& order);
  std::optional<Candidate> start_at(const std::vector<std::size_t>& order, std::int64_t prefill,
                                    std::int64_t decode);

  const Instance& instance_;
  PlanRequest request_;
  StartSet set_;
  std::unique_ptr<Deadline> deadline_;
  std::vector<std::vector<std::size_t>> orders_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
  std::size_t order_ = 0;
  DeviceOrders further_;          ///< with StartSet::all, after orders_
  std::vector<Candidate> queue_;  ///< starts of the order at hand, best first
  std::optional<Candidate> last_;
  std::optional<SolveStatus> stopped_by_;
  std::optional<Violation> violation_;
};

}  // namespace tessera::solver
