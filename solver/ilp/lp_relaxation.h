#pragma once

#include <functional>
#include <optional>

#include "subproblem.h"
#include "tessera/solver/mip/cbc.h"

namespace tessera::solver {

/// An aggregated LP relaxation of one subproblem: a lower bound that takes milliseconds. Counts of
/// layers per (device group, class, bitwidth) are real numbers, the slowest stage is at least the
/// average over the devices of a group, and omega is a transportation problem over layers and
/// bitwidths. Contiguity and, where none is given, the order are relaxed.
class LpRelaxation {
 public:
  /// A solve that `should_stop` cuts short gives the bound -infinity and infinite
  /// ranges.
  LpRelaxation(const Subproblem& problem, std::function<bool()> should_stop);

  struct Bound {
    bool feasible = false;
    double objective = 0;
    double prefill_max_s = 0, decode_max_s = 0;  ///< Tp, Td at the optimum of the relaxation
  };
  Bound solve();

  /// Bound tightening: ranges of Tp and Td over relaxed plans with an objective of at most
  /// `cutoff`; absent when there are none.
  struct StageTimeBounds {
    Interval prefill_max_s, decode_max_s;
  };
  std::optional<StageTimeBounds> tighten_bounds(double cutoff);

 private:
  // Devices that the relaxation does not tell apart.
  struct Slot {
    std::size_t group = 0;
    double count = 1;
    bool may_be_first = false, may_be_last = false;
    std::size_t first = 0, last = 0;  ///< columns: how many are the first, the last stage
    std::vector<std::size_t> c;       ///< [class][bit] columns
  };

  void add_layers(LinearModel& model);
  void add_slots(LinearModel& model);
  void add_slot_rows(LinearModel& model, const Slot& slot);
  void add_objective(LinearModel& model);
  void add_links(LinearModel& model);
  std::optional<double> extreme(std::size_t column, double sign);

  const Subproblem& problem_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> z_;  ///< [layer][bit]
  std::size_t tp_ = 0, td_ = 0, round_ = 0, cost_ = 0;
  double prefill_unit_ = 1, decode_unit_ = 1;      ///< seconds per unit of a column
  double prefill_link_s_ = 0, decode_link_s_ = 0;  ///< slowest link of a fixed order
  std::vector<LinearModel::Term> sum_prefill_, sum_decode_;
  std::optional<LpSolver> lp_;
};

}  // namespace tessera::solver
