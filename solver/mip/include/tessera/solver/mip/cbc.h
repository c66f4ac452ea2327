#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// What CBC may spend and whom it tells.
struct MipLimits {
  double time_limit_s = 1e9;
  double relative_gap = 0;
  std::optional<double> cutoff;  ///< only solutions below it are of interest
  /// Column values of a solution below the cutoff; not a number where CBC is to find them.
  std::optional<std::vector<double>> start;
  double least_improvement = 0;           ///< solutions that are better by less are of no interest
  std::optional<std::int64_t> max_nodes;  ///< of the search tree
  /// CBC's preprocessing, for models that nobody has reduced. Incumbents are then told only at the
  /// end, and a search that `should_stop` ended has no bound.
  bool preprocess = false;
  /// Asked at every event of the search and every simplex iteration; true ends it.
  std::function<bool()> should_stop;
  /// Told of each new incumbent (column values) and the bound then. May throw: the search stops and
  /// solve_mip rethrows.
  std::function<void(const std::vector<double>&, double bound)> on_solution;
};

struct MipResult {
  bool finished = false;                 ///< searched to the end: `bound` is the optimum or cutoff
  std::optional<std::vector<double>> x;  ///< best solution below the cutoff
  double objective = 0;
  double bound = -kFree;  ///< no solution is better than this
};

/// Branch and cut on COIN-OR CBC: one thread, deterministic, silent.
/// @throws Error{solver} when the library fails, and whatever the callbacks threw.
MipResult solve_mip(const LinearModel& model, const MipLimits& limits);

enum class ModelFormat { lp, mps };  ///< CPLEX LP; free MPS

/// Writes a model whose columns and rows have names; 15 decimals. @throws Error{solver}.
void write_coin(const LinearModel& model, const std::string& path, ModelFormat format);
/// @throws Error{invalid_argument} for what is no such file.
LinearModel read_coin(const std::string& path, ModelFormat format);

/// A linear programme on COIN-OR CLP that is solved again and again with changed costs and bounds,
/// from the previous basis.
class LpSolver {
 public:
  /// `should_stop` is asked at every iteration; the outcome is then `failed`.
  LpSolver(const LinearModel& model, std::function<bool()> should_stop);
  ~LpSolver();
  LpSolver(LpSolver&&) noexcept;
  LpSolver& operator=(LpSolver&&) noexcept;

  void set_cost(std::size_t column, double cost);
  void set_bounds(std::size_t column, double low, double high);
  void clear_costs();

  enum class Outcome { optimal, infeasible, failed };
  struct Solution {
    Outcome outcome = Outcome::failed;
    double objective = 0;  ///< without LinearModel::constant
  };
  Solution minimise();
  std::vector<double> values() const;
  /// What the objective changes by, for each unit of a row's bounds.
  std::vector<double> row_prices() const;
  /// And for each unit of a column: reduced costs.
  std::vector<double> column_prices() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::solver
