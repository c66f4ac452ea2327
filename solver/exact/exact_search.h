#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "box_solver.h"
#include "config_table.h"
#include "fluid_bound.h"
#include "order_free_search.h"
#include "search_space.h"
#include "tessera/core/thread_pool.h"
#include "tessera/solver/instance/deadline.h"

namespace tessera::solver::exact {

/// The whole search (solver/README.md, Exact search): branch and bound over boxes of (Tp, Td) of
/// all pairs of micro-batch sizes, lowest bound first (best first). Before it, a Lagrangian
/// relaxation bounds every pair (FluidBound), and primal heuristics find a first incumbent among
/// stages of at most two bitwidths. Boxes are solved in rounds of fixed size that all start from
/// the same incumbent, so the answer does not depend on the number of threads.
class ExactSearch {
 public:
  ExactSearch(const Instance& instance, const PlanRequest& request);

  /// Requires that find_obvious_infeasibility found nothing.
  PlanResult run();

 private:
  void choose_graphs();
  void restrict_orders(double stride);
  ConfigTable::Admits fits_memory() const;
  bool nothing_fits();
  void find_best_pairs();
  void bound_pairs();
  void sort_pairs();
  void find_first_plan();
  void find_incumbents(const std::vector<OpenBox>& roots, const ConfigTable& table, bool thorough);
  void walk_from_best();
  void build_table();
  void solve_boxes();
  void solve_round(std::vector<OpenBox> round);
  void bound_all_orders(std::size_t max_boxes);
  OpenBox root(std::size_t pair, const Box& box) const;
  ConfigTable table_of(const std::vector<OpenBox>& roots, std::size_t max_support,
                       std::size_t max_entries) const;
  void push(OpenBox box);
  OpenBox pop();
  void offer(Candidate plan);
  void offer(const Path& path, const ConfigTable& table, std::size_t pair);
  double request_cutoff() const;
  double cutoff() const;
  double tolerance() const;
  double bound() const;
  bool stopped();
  PlanResult finish();

  const Instance& instance_;
  const PlanRequest& request_;
  Deadline deadline_;
  SearchSpace space_;
  Graphs graphs_;
  bool restricted_ = false;  ///< the graph does not hold every order
  bool hopeless_ = false;    ///< no plan fits the devices' memory
  std::size_t num_threads_ = 1;
  std::unique_ptr<ThreadPool> workers_;
  std::vector<FluidBound> fluid_;      ///< [pair]
  std::vector<std::size_t> by_bound_;  ///< pairs, most promising first
  std::unique_ptr<ConfigTable> table_;
  bool table_is_whole_ = false;                      ///< not restricted to few bitwidths
  std::unique_ptr<OrderFreeSearch> order_free_;      ///< where the graph does not hold every order
  std::vector<std::unique_ptr<BoxSolver>> solvers_;  ///< [worker]
  std::vector<OpenBox> open_;                        ///< heap
  std::size_t num_boxes_ = 0;
  double in_hand_ = kInfinity;     ///< least bound of the boxes being solved
  double unresolved_ = kInfinity;  ///< least bound of what was given up
  std::optional<Candidate> best_;
  double best_objective_ = 0;
  std::optional<SolveStatus> stopped_by_;
  std::vector<std::string> notes_;
};

}  // namespace tessera::solver::exact
