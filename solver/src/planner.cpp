#include "tessera/solver/planner.h"

#include "tessera/solver/plan_search.h"

namespace tessera::solver {

std::string_view to_string(SolveStatus status) {
  switch (status) {
    case SolveStatus::optimal:
      return "optimal";
    case SolveStatus::feasible:
      return "feasible";
    case SolveStatus::infeasible:
      return "infeasible";
    case SolveStatus::time_limit:
      return "time_limit";
    case SolveStatus::interrupted:
      return "interrupted";
  }
  return "unknown";
}

std::vector<std::unique_ptr<Planner>> make_planners() {
  std::vector<std::unique_ptr<Planner>> planners;
  planners.push_back(make_exact_planner());
  planners.push_back(make_ilp_planner());
  planners.push_back(make_adabits_planner());
  planners.push_back(make_heuristic_planner(make_bitwidth_transfer()));
  planners.push_back(make_threshold_planner());
  return planners;
}

std::vector<std::unique_ptr<Heuristic>> make_heuristics() {
  std::vector<std::unique_ptr<Heuristic>> heuristics;
  heuristics.push_back(make_bitwidth_transfer());
  return heuristics;
}

}  // namespace tessera::solver
