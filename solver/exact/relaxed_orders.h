#pragma once

#include <functional>

#include "cut_model.h"
#include "fluid_bound.h"
#include "path_search.h"

namespace tessera::solver::exact {

/// Lower bound over every plan of one pair of micro-batch sizes within a box, whatever its order.
struct RelaxedBound {
  double value = -kInfinity;  ///< infinite when there is no pipeline at all
  PricePoint at;
  Path path;  ///< the pipeline behind it; uses each kind about as often as it may
};

struct RelaxEffort {
  std::size_t max_steps = 0;
  double enough = kInfinity;  ///< a bound that need not be beaten
  std::function<bool()> should_stop;
};

/// Prices that are no worse than the fluid bound's.
PricePoint fluid_prices(const SearchSpace& space, const Pair& pair, const FluidBound& fluid);

/// State-space relaxation, where the numbers of devices used are too many for states: the shortest
/// pipeline in which every kind may stand anywhere and any number of times. The devices that there
/// are enter by Lagrangian relaxation: each has a price, which is paid back for as many as there
/// are. Unlike in the fluid bound stages stay whole, fit their device and know their layers.
/// @param options what a plan below the cutoff may use within the box (see all_options)
/// @param scale a typical objective
RelaxedBound relax_orders(const SearchSpace& space, const ConfigTable& table, const Pair& pair,
                          const Box& box, const OptionSet& options, PricePoint start, double scale,
                          const RelaxEffort& effort);

}  // namespace tessera::solver::exact
