#pragma once

#include <optional>
#include <vector>

#include "tessera/solver/mip/linear_model.h"

namespace tessera::solver {

/// A model with some of its columns settled, and what is left of it.
class Restriction {
 public:
  /// @param settled [column] the value, or not a number
  Restriction(const LinearModel& model, const std::vector<double>& settled);

  const LinearModel& model() const { return left_; }
  /// Whether the rows that have no column left hold.
  bool possible() const { return possible_; }
  std::vector<double> restrict(const std::vector<double>& x) const;
  std::vector<double> expand(const std::vector<double>& x) const;

 private:
  LinearModel left_;
  std::vector<double> settled_;
  std::vector<std::size_t> column_;  ///< of the model, for each that is left
  bool possible_ = true;
};

}  // namespace tessera::solver
