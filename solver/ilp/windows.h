#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pair_problem.h"

namespace tessera::solver {

/// What is known beforehand about the plans worth finding. Tighter is faster; a window must hold
/// every plan that the caller still wants.
struct FormulationWindows {
  std::vector<Window> end_layer;  ///< [positions]: number of layers on positions <= j
  Window prefill_max_s, decode_max_s;
  double objective_scale = 1;  ///< about the size of the objective
};

/// Most layers that position j can hold on a group, given memory and the slowest stage allowed.
double most_layers(const PairProblem& problem, std::size_t j, std::size_t group,
                   const Window& prefill_max_s, const Window& decode_max_s);

/// The base form: what holds for every plan whatever memory and times are. Absent when there are
/// fewer layers than stages that hold one.
std::optional<FormulationWindows> base_windows(const PairProblem& problem, double objective_scale);

/// The tightened form: ranges of Tp, Td and the boundaries over relaxed plans no dearer than
/// `cutoff` (infinite: any), by linear programming. Absent when no plan is left. A call that
/// `should_stop` cuts short returns wider windows.
std::optional<FormulationWindows> tightened_windows(const PairProblem& problem, double cutoff,
                                                    double objective_scale,
                                                    const std::function<bool()>& should_stop);

}  // namespace tessera::solver
