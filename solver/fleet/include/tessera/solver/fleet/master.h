#pragma once

#include <vector>

#include "tessera/solver/fleet/fleet.h"

namespace tessera::solver {

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

 private:
  FleetInstance instance_;
  FleetPlacement last_;
};

}  // namespace tessera::solver
