#include "tessera/solver/planning/planners.h"

#include "tessera/solver/exact/exact_planner.h"
#include "tessera/solver/heuristic/heuristics.h"
#include "tessera/solver/ilp/ilp_planner.h"

namespace tessera::solver {

std::vector<std::unique_ptr<Planner>> make_planners() {
  std::vector<std::unique_ptr<Planner>> planners;
  planners.push_back(make_exact_planner());
  planners.push_back(make_ilp_planner());
  planners.push_back(make_adabits_planner());
  planners.push_back(make_heuristic_planner(make_bitwidth_transfer()));
  planners.push_back(
      make_heuristic_planner(make_bitwidth_transfer(TransferRules::printed), StartSet::all));
  planners.push_back(make_threshold_planner());
  return planners;
}

std::vector<std::unique_ptr<Heuristic>> make_heuristics() {
  std::vector<std::unique_ptr<Heuristic>> heuristics;
  heuristics.push_back(make_bitwidth_transfer());
  heuristics.push_back(make_bitwidth_transfer(TransferRules::printed));
  return heuristics;
}

}  // namespace tessera::solver
