#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/core/registry.h"
#include "tessera/solver/instance/instance.h"

namespace tessera::solver {

enum class SolveStatus { optimal, feasible, infeasible, time_limit, interrupted };

struct Incumbent {
  Candidate candidate;
  double objective = 0;
  double bound = 0;
};

/// What the ILP planner hands to CBC. The optimum is the same.
enum class IlpForm {
  tightened,  ///< prefix and counts, with ranges for stage times and boundaries, local search and a
              ///< cutoff
  base,       ///< prefix and counts, bare
  paper       ///< eqs. (4)-(16) as printed, for every order and pair of micro-batch sizes
};

/// What is fixed and what limits the search. What is absent is searched.
struct PlanRequest {
  std::optional<std::vector<std::size_t>> order;  ///< groups by position
  std::optional<std::int64_t> prefill_micro_batch_size;
  std::optional<std::int64_t> decode_micro_batch_size;
  std::optional<double> cutoff;  ///< only plans with a lower objective are of interest
  double time_limit_s = 60;
  double gap = 0;  ///< relative gap at which to stop
  std::uint64_t seed = 0;
  std::int32_t threads = 0;  ///< of planners that use several; 0: all cores
  IlpForm ilp_form = IlpForm::tightened;
  std::optional<Candidate> start;           ///< of the ILP planner: a plan that breaks nothing
  const std::atomic<bool>* stop = nullptr;  ///< set by Ctrl-C
  std::function<void(const Incumbent&)>
      on_incumbent;  ///< may throw; planners park it, stop and rethrow
};

/// Outcome. With `infeasible`, `violation` names the binding constraint: "cutoff" where plans may
/// exist, but none below the cutoff that was asked for, which is then the bound. `time_limit` and
/// `interrupted` mean that no plan was found; with an incumbent the status is `feasible` and
/// `stopped_by` tells why it is no more.
struct PlanResult {
  SolveStatus status = SolveStatus::infeasible;
  std::optional<Candidate> candidate;
  double objective = 0;
  std::optional<double> bound;
  std::optional<SolveStatus> stopped_by;
  double solve_s = 0;
  std::optional<Violation> violation;
  std::vector<std::string> notes;
};

class Planner {
 public:
  virtual ~Planner() = default;
  virtual Card card() const = 0;
  virtual PlanResult plan(const Instance& instance, const PlanRequest& request) const = 0;
};

/// Names the constraint that makes a request hopeless without solving anything (no kernel, memory
/// of the whole cluster or of every first stage, fewer layers than stages, quality floor); absent
/// when nothing obvious stands in the way.
std::optional<Violation> find_obvious_infeasibility(const Instance& instance,
                                                    const PlanRequest& request);

}  // namespace tessera::solver

namespace tessera {

template <>
inline constexpr auto kEnumNames<solver::SolveStatus> =
    enum_names<solver::SolveStatus>({{solver::SolveStatus::optimal, "optimal"},
                                     {solver::SolveStatus::feasible, "feasible"},
                                     {solver::SolveStatus::infeasible, "infeasible"},
                                     {solver::SolveStatus::time_limit, "time_limit"},
                                     {solver::SolveStatus::interrupted, "interrupted"}});

}  // namespace tessera
