#include "tessera/solver/instance/planner.h"

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

}  // namespace tessera::solver
