#pragma once

#include <cstdint>
#include <vector>

#include "config_table.h"
#include "fluid_bound.h"

namespace tessera::solver::exact {

/// Reduced-cost fixing against the fluid bound: tells which configurations can be part of a plan
/// below the cutoff. The reduced cost of a stage is that of its layers at the fluid's prices, less
/// what the fluid pays for these layers, plus the price of the memory that the stage leaves idle.
/// Configurations multiply with bitwidths and with layers of several shapes, and most of them go
/// here before they take memory.
class StageFilter {
 public:
  StageFilter(const SearchSpace& space, double cutoff) : space_(space), cutoff_(cutoff) {}

  /// Admits stages of this pair within the box.
  void add_pair(std::size_t pair, const FluidBound& fluid, const Box& box);

  /// @param counts [cell], of the first `num_classes` classes
  /// @param whole no layer is left to choose for: what the stage leaves idle counts
  /// @param omega least omega of these layers by the shape's starts
  bool keeps(const ConfigTable::Shape& shape, const std::uint16_t* counts, std::size_t num_classes,
             bool whole, const double* omega);

 private:
  struct PairPrices {
    std::size_t pair = 0;
    Box box;
    double slack = 0;  ///< cutoff less the bound
    FluidBound::Prices prices;
    // Of the shape at hand.
    std::vector<double> paid;       ///< [classes chosen - 1][start] by the fluid for the layers
    std::vector<double> most_paid;  ///< [classes chosen - 1]
  };
  void prepare(const ConfigTable::Shape& shape);
  bool passes(const PairPrices& at, std::size_t kind, const ConfigTable::Shape& shape,
              const std::uint16_t* counts, std::size_t num_classes, bool whole, const double* omega,
              double least_omega) const;

  const SearchSpace& space_;
  double cutoff_;
  std::vector<PairPrices> pairs_;
  std::size_t last_ = 0;  ///< neighbouring configurations mostly pass at the same pair and kind
  std::size_t length_ = static_cast<std::size_t>(-1);
  std::vector<std::uint16_t> layers_;
};

}  // namespace tessera::solver::exact
