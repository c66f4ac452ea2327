#pragma once

#include <optional>

#include "multipliers.h"

namespace tessera::solver::exact {

/// Lagrangian relaxation for one pair of micro-batch sizes: Tp, Td, the memory of each kind of
/// device and the quality floor are priced by multipliers, and contiguity is left out. What remains
/// falls apart by layers: each goes to its cheapest (kind, bitwidth), as if layers were a fluid.
/// The dual is maximised by the subgradient method. A fraction of a millisecond; sorts the pairs
/// and starts their multipliers.
class FluidBound {
 public:
  FluidBound(const SearchSpace& space, const Pair& pair);

  /// Subgradient steps until the bound is `enough` or little is left to gain; keeps the best. A
  /// later call goes on where this one stopped, as if it had not.
  void improve(double enough);
  double bound() const { return best_; }
  const Multipliers& multipliers() const { return best_at_; }
  /// Bound tightening: largest Tp, Td of a plan that costs no more than `cutoff`.
  Box box_below(double cutoff) const;

  /// The prices behind the bound: what a layer costs less what is paid for it is its reduced cost.
  struct Prices {
    std::vector<double> cell;         ///< [kind][cell] of a layer: time and memory
    std::vector<double> memory;       ///< [kind] of a byte
    std::vector<double> least_room;   ///< [kind] bytes that a device has for layers at any place
    std::vector<double> paid_before;  ///< [class][layer] sum over the class's layers before it
    double omega = 0;
  };
  Prices prices() const;

 private:
  struct Memory {
    double room = 0;        ///< bytes of the kind's devices for layers
    ByPlace<double> extra;  ///< bytes that a place takes more than the middle one
  };
  // A fluid and the room to compute it in.
  struct Fluid {
    Weights weights;
    Usage usage;
    std::vector<double> bytes;         // [kind]
    std::vector<double> price, count;  // [cell] of a layer where it costs least; layers
    std::vector<std::size_t> who;      // [cell] kind that it costs least on
  };
  // What the ascent knows between two steps.
  struct AscentState {
    SubgradientAscent ascent;
    std::vector<double> memory_price, memory_direction;
    double aim = 0.3;  ///< gain that the next step is made for, in scales
    std::size_t steps = 0, idle = 0;
    bool over = false;
  };
  double evaluate(const Multipliers& at, const std::vector<double>& memory_price, const Box& box,
                  Fluid& fluid) const;
  // A stage at an end, or the only one, where it costs least.
  struct End {
    StagePlace place = StagePlace::only;
    std::size_t kind = 0;
    double price = kInfinity;
  };
  End cheapest_end(StagePlace place, const std::vector<double>& memory_price,
                   const Weights& weights) const;
  double add_ends(const std::vector<double>& memory_price, Fluid& fluid) const;
  void retreat();
  void step(double value, const Fluid& fluid);
  double scaled_bound(double keep, bool prefill) const;

  const SearchSpace& space_;
  const Pair& pair_;
  std::vector<Memory> memory_;
  Box box_;  ///< the floors that need no search
  double scale_ = 1;
  double best_ = -kInfinity;
  Multipliers best_at_;
  std::vector<double> best_memory_price_;
  std::optional<AscentState> ascent_;
};

}  // namespace tessera::solver::exact
