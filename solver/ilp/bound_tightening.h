#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "subproblem.h"

namespace tessera::solver {

/// Bounds on the variables of the programme that are known beforehand. Tighter is faster; they must
/// hold every plan that the caller still wants.
struct VariableBounds {
  std::vector<Interval> end_layer;  ///< [positions]: number of layers on positions <= j
  Interval prefill_max_s, decode_max_s;
  double objective_scale = 1;  ///< about the size of the objective
};

/// Most layers that position j can hold on a group, given memory and the slowest stage allowed.
double most_layers(const Subproblem& problem, std::size_t j, std::size_t group,
                   const Interval& prefill_max_s, const Interval& decode_max_s);

/// The base form: what holds for every plan whatever memory and times are. Absent when there are
/// fewer layers than stages that hold one.
std::optional<VariableBounds> base_bounds(const Subproblem& problem, double objective_scale);

/// The tightened form: optimality-based bound tightening (OBBT). The least and the largest Tp, Td
/// and boundaries of the LP relaxation whose objective is at most `cutoff` (infinite: any). Absent
/// when no plan is left. A call that `should_stop` cuts short returns wider bounds.
std::optional<VariableBounds> tightened_bounds(const Subproblem& problem, double cutoff,
                                               double objective_scale,
                                               const std::function<bool()>& should_stop);

}  // namespace tessera::solver
