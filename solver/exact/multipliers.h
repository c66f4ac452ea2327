#pragma once

#include <vector>

#include "search_space.h"

namespace tessera::solver::exact {

/// A part of the plane of slowest stage times: plans with Tp and Td in these intervals.
struct Box {
  double prefill_low = 0, prefill_high = kInfinity;
  double decode_low = 0, decode_high = kInfinity;
};

/// Lagrange multipliers: what makes a lower bound out of a shortest path (Lagrangian relaxation). A
/// plan's Tp is at least the box's lower end and at least the average time of a kind's stages:
/// prefill[k] is the share of Tp's price that pays for the latter, the rest pays for the former;
/// decode[k] the same for Td. The price of a round, max(mu Td, sum D), is split lambda : 1 -
/// lambda. `nu` prices omega above the quality floor.
struct Multipliers {
  std::vector<double> prefill, decode;  ///< [kind], each sums to at most 1
  double lambda = 0, nu = 0;
};

/// Linear prices that multipliers put on stages: the objective of the Lagrangian subproblem.
struct Weights {
  std::vector<double> prefill, decode;  ///< [kind] per second of stage time
  double omega = 0;
  double prefill_floor = 0, decode_floor = 0;  ///< left for the box's lower ends
  double constant = 0;
};
Weights weights_of(const SearchSpace& space, const Pair& pair, const Multipliers& multipliers,
                   const Box& box);
/// The same into weights that exist, whose memory it takes.
void set_weights(const SearchSpace& space, const Pair& pair, const Multipliers& multipliers,
                 const Box& box, Weights& weights);

/// Totals of a solution, possibly fractional.
struct Usage {
  explicit Usage(std::size_t kinds = 0) : prefill(kinds, 0), decode(kinds, 0) {}
  void clear(std::size_t kinds) {
    prefill.assign(kinds, 0);
    decode.assign(kinds, 0);
    decode_sum = omega = 0;
  }
  std::vector<double> prefill, decode;  ///< [kind] sum of stage times
  double decode_sum = 0, omega = 0;
};

/// Projected subgradient ascent on the Lagrangian dual, with momentum.
class SubgradientAscent {
 public:
  SubgradientAscent(const SearchSpace& space, const Pair& pair, Multipliers start,
                    double objective_scale);

  const Multipliers& at() const { return at_; }
  void move_to(const Multipliers& multipliers) { at_ = multipliers; }
  /// Subgradient of the dual at at(), in units of the objective; its square.
  double compute_gradient(const Usage& usage, const Box& box);
  /// Goes `length` along the gradient and back into the feasible set.
  void step(double length);
  void forget_direction() { direction_.clear(); }

 private:
  const SearchSpace& space_;
  const Pair& pair_;
  Multipliers at_;
  double nu_scale_ = 1;
  bool lambda_free_ = false;
  std::vector<double> direction_;  ///< prefill, decode, lambda, nu in units of nu_scale_
};

/// Nearest point with entries >= 0 that sum to at most 1.
void project_to_simplex(std::vector<double>& x);

/// A typical price of omega: the objective's size over the floor's.
double omega_price_scale(const SearchSpace& space, double objective_scale);

/// Multipliers before anything is known.
Multipliers first_multipliers(const SearchSpace& space, const Pair& pair);

}  // namespace tessera::solver::exact
