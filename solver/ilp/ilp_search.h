#pragma once

#include <optional>
#include <string>
#include <vector>

#include "subproblem.h"
#include "tessera/solver/instance/deadline.h"
#include "tessera/solver/instance/planner.h"
#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// What a better plan has to gain, relative to the objective, to be looked for at all.
inline constexpr double kImprovement = 1e-7;
/// Numerical tolerance of every proof, relative to the objective: a proven plan is within it of the
/// optimum. It covers kImprovement and the tolerances of the linear programmes.
inline constexpr double kProofTolerance = 1e-6;

/// The whole search of the ILP planner (solver/README.md, Integer programme): bounds every pair of
/// micro-batch sizes by its LP relaxation, finds a first plan by local search, and solves the
/// pairs' programmes by CBC's branch and cut, lowest bound first, until no bound is left below the
/// incumbent.
class IlpSearch {
 public:
  /// `explains`: an infeasible result names what binds, which costs further searches.
  IlpSearch(const Instance& instance, const PlanRequest& request, bool explains = true);

  /// Requires that find_obvious_infeasibility found nothing.
  PlanResult run();

  /// Writes the programme of the one pair that the request names; see write_model.
  std::optional<Violation> write(const std::string& path);

 private:
  struct Pair {
    std::int64_t prefill = 1, decode = 1;
    double bound = 0;  ///< no plan of this pair is better
    bool solved = false;
  };

  void start();
  void list_pairs();
  void bound_pairs();
  void find_first_plans();
  void improve_locally(const Pair& pair, std::int64_t moves);
  void solve_single_stages();
  void solve_pairs();
  void solve_pair(Pair& pair);
  struct Proof {
    double bound = 0;  ///< no plan is better
    bool finished = false;
  };
  void solve_paper_pair(Pair& pair);
  Proof solve_paper(const Subproblem& problem);
  void write_paper(const std::string& path) const;
  /// Takes a plan if it is better. False: it breaks a constraint.
  bool offer(Candidate candidate);
  bool base_form() const { return request_.ilp_form == IlpForm::base; }
  bool paper_form() const { return request_.ilp_form == IlpForm::paper; }
  /// The best plan so far has the pair's micro-batch sizes.
  bool is_of(const Pair& pair) const;
  double cutoff() const;
  double bound() const;
  bool stopped();
  Violation explain() const;
  PlanResult finish();

  const Instance& instance_;
  const PlanRequest& request_;
  bool explains_;
  Deadline deadline_;
  std::vector<Pair> pairs_;
  std::optional<Candidate> best_;
  double best_objective_ = 0;
  double single_stage_bound_ = kFree;  ///< of plans on one group alone, where they count
  bool gave_up_ = false;               ///< the library could not decide some pair
  std::optional<SolveStatus> stopped_by_;
  std::vector<std::string> notes_;
};

}  // namespace tessera::solver
