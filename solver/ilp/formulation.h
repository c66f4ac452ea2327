#pragma once

#include <optional>
#include <vector>

#include "ilp/linear_model.h"
#include "ilp/pair_problem.h"

namespace tessera::solver {

/// What is known beforehand about the plans worth finding. Tighter is faster; a window must hold
/// every plan that the caller still wants.
struct FormulationWindows {
  std::vector<Window> end_layer;  ///< [positions]: number of layers on positions <= j
  Window prefill_max_s, decode_max_s;
  double objective_scale = 1;  ///< about the size of the objective
};

/// End-layer windows from memory and stage times alone, Tp and Td as given; absent when some
/// window is empty, that is, no plan exists.
std::optional<std::vector<Window>> end_layer_windows(const PairProblem& problem,
                                                     Window prefill_max_s, Window decode_max_s);

/// The "prefix + counts" integer programme of planner.md section 3 for one pair of micro-batch
/// sizes:
///   s_ij = 1: layer i is on a position <= j (binary);  E_j = sum_i s_ij;
///   c_jgkb: layers of class k at bit b on position j, which runs on group g;
///   z_ijb: share of layer i at bit b on position j (continuous: for fixed s and c its system is a
///   transportation polytope, so an integer optimum exists);
///   x_jg: position j runs on group g;  y_jg: and it is the last one.
/// With a fixed order x and y are constants. The objective is in units of objective_scale / 1000.
class Formulation {
 public:
  Formulation(const PairProblem& problem, const FormulationWindows& windows);

  const LinearModel& model() const { return model_; }
  double to_model(double objective) const { return objective / unit_; }
  double from_model(double objective) const { return objective * unit_; }
  std::size_t end_layer_column(std::size_t position) const { return e_[position]; }

  /// The plan behind the column values: boundaries and counts rounded, bits recovered exactly.
  /// Absent when they do not add up (numerical trouble).
  std::optional<Candidate> decode(const std::vector<double>& x) const;

 private:
  using Terms = std::vector<LinearModel::Term>;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::size_t c_at(std::size_t j, std::size_t g, std::size_t cell) const {
    return c_[(j * groups_ + g) * cells_ + cell];
  }
  bool may_hold(std::size_t layer, std::size_t j) const;
  /// s_ij as column or constant: a column number, or kNone with `constant` set.
  void add_s(Terms& terms, double& constant, std::size_t layer, std::size_t j, double factor) const;
  void add_e(Terms& terms, double& constant, std::size_t j, double factor) const;
  double most(std::size_t j, std::size_t g, std::size_t cell) const;

  void add_times();
  void add_boundaries();
  void add_positions();
  void add_counts();
  void add_shares();
  void add_count_rows();
  void add_memory_rows(std::size_t j);
  void add_time_rows(std::size_t j);
  void add_group_rows();
  void add_link_rows();
  void add_occupancy_rows(std::size_t j);
  void add_objective_rows();
  Terms stage_time(const PhaseCosts& costs, double unit, std::size_t j, std::size_t g) const;

  const PairProblem& problem_;
  const Instance& instance_;
  const FormulationWindows& windows_;
  std::size_t positions_ = 0, groups_ = 0, layers_ = 0, bits_ = 0, cells_ = 0;
  double unit_ = 1, prefill_unit_ = 1, decode_unit_ = 1;
  LinearModel model_;
  std::size_t tp_ = 0, td_ = 0, round_ = 0;
  std::vector<std::size_t> s_, e_, z_, c_, x_, y_;
};

}  // namespace tessera::solver
