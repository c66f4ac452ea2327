#pragma once

#include <optional>
#include <vector>

#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

/// Of the linear programme: what no placement passes, and what it is made of.
struct FleetRelaxation {
  std::optional<double> bound;       ///< absent: not even that has a solution
  std::vector<double> copies;        ///< [column]
  std::vector<double> model_prices;  ///< [model] what one more request/s costs
};

/// Solves an instance, again and again while its columns come and their rates fall.
class FleetMaster {
 public:
  /// @throws Error as check_instance
  explicit FleetMaster(FleetInstance instance);

  const FleetInstance& instance() const { return instance_; }

  /// @param rate by class of requests. @throws Error{invalid_argument} for another number of them
  void set_rates(std::size_t column, std::vector<double> rate);
  /// Its index. @throws Error{invalid_argument} as check_instance
  std::size_t add_column(Column column);
  void set_demand(std::size_t model, std::vector<double> demand);

  /// Starts from the last answer where `options.start` is empty; that it no longer does harms
  /// nothing. The answer depends on the instance, the options and that start, on time only where
  /// the limit cut it short. @throws Error{solver} when the library fails, and what callbacks threw
  FleetAnswer solve(const FleetOptions& options);

  /// The linear programme alone, which is soon solved.
  FleetRelaxation relaxed(const FleetOptions& options) const;

 private:
  FleetInstance instance_;
  FleetPlacement last_;
};

}  // namespace tessera::solver
