#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "space.h"
#include "tessera/solver/mip/linear_model.h"

/// The integer programme of a fleet.
///
/// Nodes are counted in units: all nodes of a class together, or each by itself. Of a unit of
/// several nodes the programme is a relaxation: replicas may fit in sum and not node by node, and
/// what is lost with a node is the mean over the unit's. Of single nodes it is the problem itself.
namespace tessera::solver {

inline double as_number(std::int64_t value) { return static_cast<double>(value); }
inline constexpr double kGranted = 1e-9;  ///< of a demand or a budget, as the checker grants it

struct Unit {
  std::size_t node_class = 0;
  std::int64_t count = 1;  ///< nodes
  std::int64_t first = 0;  ///< of the class's nodes
};

/// Kinds that fill a node together, by how many devices they take: of each shape so many.
struct Pattern {
  std::vector<std::int64_t> count;  ///< [shape of the class]
};
struct ClassPatterns {
  std::vector<std::vector<std::int32_t>> shapes;  ///< [shape][type]
  std::vector<Pattern> patterns;                  ///< no other takes all of one and more
};

struct ProgrammeOptions {
  std::vector<char> by_node;                           ///< [class] each node by itself
  std::vector<std::optional<ClassPatterns>> patterns;  ///< [class] what is known to fit
  bool with_reserve = true, with_budget = true, with_constraints = true;
  /// Of objective rate: what each model is served counts besides, up to so many times its demand.
  /// Steps that help one of several models that are served least then show.
  std::optional<double> worthwhile;
  bool more_nodes = false;  ///< nodes may be added; the fewest are the objective
};

/// Replicas by kind and unit, and over whole nodes by kind and class.
struct FleetCounts {
  std::vector<std::vector<std::int64_t>> on_unit;   ///< [kind][unit]
  std::vector<std::vector<std::int64_t>> in_class;  ///< [kind][class]
};

class FleetProgramme {
 public:
  FleetProgramme(const FleetSpace& space, ProgrammeOptions options);

  const LinearModel& model() const { return lp_; }
  const std::vector<Unit>& units() const { return units_; }
  const ProgrammeOptions& options() const { return options_; }

  FleetCounts counts(const std::vector<double>& x) const;
  std::vector<double> nodes_added(const std::vector<double>& x) const;  ///< [class]
  /// Column values: the integer ones are exact, others are left to the solver.
  std::vector<double> encode(const FleetCounts& counts) const;

  /// Of the programme's value; the objective of the instance.
  double objective(double value) const { return value * scale_; }
  double value(double objective) const { return objective / scale_; }
  /// Every objective is a multiple of it; 0: not known.
  double step() const { return step_; }

  /// Columns that count replicas.
  struct Decision {
    std::size_t column = 0, kind = 0, model = 0, node_class = 0;
  };
  std::vector<Decision> decisions() const;

  struct CapacityRow {
    std::size_t row = 0, node_class = 0;
    std::optional<std::size_t> type;  ///< absent: of nodes
  };
  const std::vector<CapacityRow>& capacity_rows() const { return capacity_rows_; }
  /// [model] rows that ask for the demand; one for each class of requests.
  const std::vector<std::vector<std::size_t>>& demand_rows() const { return demand_rows_; }

 private:
  using Terms = std::vector<LinearModel::Term>;
  struct Single {
    std::size_t kind = 0, unit = 0, column = 0;
  };
  struct Whole {
    std::size_t kind = 0, node_class = 0, column = 0;
  };

  void add_units();
  void add_replicas();
  void add_capacity(std::size_t unit);
  void add_fitting_rows(std::size_t unit, const Terms& room, double nodes);
  void add_pattern_rows(std::size_t unit, const Terms& room, double nodes);
  void add_order();
  void add_whole_rows();
  void add_costs();
  void add_switching(double usd_per_h);
  double add_switch(std::size_t column, double running, double cost);
  void add_demands();
  void add_one_class(std::size_t model, bool reserve);
  void add_loss(std::size_t model, std::size_t loss);
  void add_worst_losses(std::size_t model, std::size_t loss);
  void add_classes(std::size_t model, bool reserve);
  /// What may be lost of a model: nodes of a unit, or replicas of a kind over whole nodes.
  struct Loser {
    std::optional<std::size_t> unit, whole;
    std::int64_t most = 0;
  };
  std::vector<Loser> losers(std::size_t model) const;
  void add_scenario(std::size_t model, const std::vector<Loser>& losers,
                    const std::vector<std::int64_t>& lost);
  void add_constraint(const FleetConstraint& rule);
  void add_apart(std::size_t one, std::size_t other);

  double usd(const Single& s) const;
  double rate(std::size_t kind, std::size_t b = 0) const;
  std::size_t used_binary(std::size_t column) { return binary_of_at_least(column, 1); }
  /// Whether a column has so many or more.
  std::size_t binary_of_at_least(std::size_t column, std::int64_t count);
  Terms total_of(std::size_t kind, double factor) const;
  Terms demand_terms(std::size_t model) const;
  std::int64_t most_whole(const Whole& whole) const;

  const FleetSpace& space_;
  ProgrammeOptions options_;
  LinearModel lp_;
  std::vector<Unit> units_;
  std::vector<Single> single_;
  std::vector<Whole> whole_;
  std::vector<std::vector<std::size_t>> single_of_unit_, single_of_kind_, whole_of_kind_;
  std::vector<std::optional<std::size_t>> taken_;  ///< [unit] nodes under whole-node replicas
  std::vector<std::optional<std::size_t>> used_;   ///< [unit] nodes billed for the others
  std::vector<std::optional<std::size_t>> more_;   ///< [class] nodes added
  std::optional<std::size_t> multiple_;            ///< column of x
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> at_least_;  ///< binaries
  std::vector<CapacityRow> capacity_rows_;
  std::vector<std::vector<std::size_t>> demand_rows_;
  double scale_ = 1, step_ = 0;
  double most_ = 1;  ///< bound on x, its unit
};

}  // namespace tessera::solver
