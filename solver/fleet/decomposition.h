#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "programme.h"

namespace tessera::solver {

/// Dantzig and Wolfe's decomposition of a fleet's programme by models: they share nothing but nodes
/// (and what constraints join). Priced nodes leave each model a programme of its own, which is
/// solved in integers, so the bound is better than the linear programme's: what a reserve costs
/// shows in whole replicas only.
class Decomposition {
 public:
  explicit Decomposition(const LinearModel& model,
                         const std::vector<FleetProgramme::Decision>& decisions);

  struct Limits {
    std::function<bool()> should_stop;
    double time_limit_s = 0;
    std::function<void(double bound)> on_bound;  ///< of the programme's value; told where it rises
  };
  /// @param x values of the programme's columns that are a solution, as far as they are numbers
  /// @param prices of rows to begin with
  void run(const std::vector<double>& x, std::vector<double> prices, const Limits& limits);

 private:
  struct Block {
    std::vector<std::size_t> columns, rows;
    LinearModel model;                                   ///< of these
    std::vector<std::vector<LinearModel::Term>> shared;  ///< [column of it] shared row, factor
  };
  /// A solution of a block.
  struct Proposal {
    std::size_t block = 0;
    double cost = 0;
    std::vector<LinearModel::Term> usage;  ///< shared row, amount
  };

  void find_blocks(const std::vector<FleetProgramme::Decision>& decisions);
  Proposal proposal_of(std::size_t block, const std::vector<double>& x) const;
  std::optional<Proposal> settled(std::size_t block, const std::vector<double>& x,
                                  const Limits& limits) const;
  std::vector<double> master_prices(const Limits& limits, double& value) const;
  double priced(const std::vector<double>& prices, const Limits& limits);
  double clamped(std::size_t shared, double price) const;

  const LinearModel& whole_;
  std::vector<std::size_t> shared_;  ///< rows
  std::vector<Block> blocks_;
  std::vector<std::size_t> loose_;  ///< columns of no block
  std::vector<std::vector<LinearModel::Term>> loose_shared_;
  std::vector<Proposal> proposals_;
};

}  // namespace tessera::solver
