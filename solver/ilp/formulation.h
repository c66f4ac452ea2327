#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_tightening.h"
#include "subproblem.h"
#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// The mixed-integer linear programme of one subproblem, in the "prefix + counts" form
/// (solver/README.md, Integer programme):
///   s_ij = 1: layer i is on a position <= j (binary);  E_j = sum_i s_ij;
///   c_jgkb: layers of class k at bit b on position j, which runs on group g;
///   z_ijb: share of layer i at bit b on position j (continuous: for fixed s and c its system is a
///   transportation polytope, so an integer optimum exists);
///   x_jg: position j runs on group g;  y_jg: and it is the last one.
/// With a fixed order x and y are constants. The objective is in units of objective_scale / 1000.
/// Side constraints are rows over c, E, s and z; z is integer for layers whose bits they name (the
/// others' system stays a transportation polytope).
class Formulation {
 public:
  /// `named`: columns and rows get names, for files.
  Formulation(const Subproblem& problem, const VariableBounds& bounds, bool named = false);

  const LinearModel& model() const { return model_; }
  double to_model(double objective) const { return objective / unit_; }
  double from_model(double objective) const { return objective * unit_; }
  std::size_t end_layer_column(std::size_t position) const { return e_[position]; }

  /// The plan behind the column values: boundaries and counts rounded, bits recovered exactly.
  /// Absent when they do not add up (numerical trouble).
  std::optional<Candidate> decode(const std::vector<double>& x) const;
  /// Column values of a plan of this pair that breaks nothing; absent when the order differs or the
  /// bounds of a variable exclude it.
  std::optional<std::vector<double>> encode(const Candidate& plan) const;

 private:
  using Terms = std::vector<LinearModel::Term>;
  using GroupSet = std::vector<std::uint8_t>;  ///< [group] 1: a member
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // The linearised products of "layer at a bit (or at any) on position j" and "position j runs on
  // group g": one column per group.
  struct Product {
    std::size_t layer = 0, position = 0;
    std::optional<std::size_t> bit;
    std::vector<std::size_t> columns;
  };

  // 1 where position j runs on a group of the set and position j - 1 on none; or, without a
  // position, where any position runs on one.
  struct Presence {
    std::size_t column = 0;
    std::optional<std::size_t> position;
    GroupSet groups;
  };

  template <class... Args>
  std::string make_name(fmt::format_string<Args...> format, Args&&... args) const {
    return named_ ? fmt::format(format, std::forward<Args>(args)...) : std::string();
  }
  static std::string plain_name(const std::string& text);
  void name_groups();
  std::string cell_name(std::size_t cell) const;

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
  void add_stage_rule_rows();
  void add_use(Terms& terms, std::size_t j, const GroupSet& set, double factor) const;
  void add_presence_of(Presence presence, Terms& sum);
  void add_no_fewer_rows(const GroupSet& node, const GroupSet& next);
  void add_objective_rows();
  void find_integral_layers();
  void add_side_row(const Row& row);
  void add_term(Terms& terms, double& constant, const RowTerm& term);
  void add_layer_term(Terms& terms, double& constant, const RowTerm& term);
  void add_presence(Terms& terms, double& constant, const RowTerm& term, std::size_t j,
                    double factor) const;
  const Product& product_of(const RowTerm& term, std::size_t j);
  Terms stage_time(const PhaseCosts& costs, double unit, std::size_t j, std::size_t g) const;

  const Subproblem& problem_;
  const Instance& instance_;
  const VariableBounds& bounds_;
  bool named_ = false;
  std::size_t positions_ = 0, groups_ = 0, layers_ = 0, bits_ = 0, cells_ = 0;
  double unit_ = 1, prefill_unit_ = 1, decode_unit_ = 1;
  LinearModel model_;
  std::size_t tp_ = 0, td_ = 0, round_ = 0;
  std::vector<std::size_t> s_, e_, z_, c_, x_, y_;
  std::vector<std::uint8_t> integral_;  ///< [layer] 1: a side constraint names its bits
  std::vector<Product> products_;
  std::vector<Presence> presences_;
  std::vector<std::string> tags_;  ///< [group] where named
  int num_side_rows_ = 0;
};

}  // namespace tessera::solver
