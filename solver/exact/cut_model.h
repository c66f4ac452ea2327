#pragma once

#include <vector>

#include "multipliers.h"

namespace tessera::solver::exact {

/// The prices behind a bound that prices devices as well, in the objective's unit.
struct PricePoint {
  Multipliers multipliers;
  std::vector<double> devices;  ///< [kind] of one device; negative only where all must be used
};

/// A pipeline as a cut of the Lagrangian dual: what it costs is linear in the multipliers.
struct Cut {
  Usage usage;
  double prefill_max = 0, decode_max = 0;  ///< slowest stages: tells in which boxes it lies
  std::vector<double> devices = {};        ///< [kind] used, where their number is priced
};

/// The cutting-plane model (Kelley) of a box's Lagrangian dual, which is concave and piecewise
/// linear: the least over the pipelines found so far. Its maximum, a linear programme, says where
/// to look next and how much there is left to gain. Seen from the primal side this is column
/// generation: every pipeline is a column.
class CutModel {
 public:
  CutModel(const SearchSpace& space, const Pair& pair, const Box& box, double objective_scale);

  void add(const Cut& cut);
  struct Maximum {
    Multipliers at;
    double value = kInfinity;  ///< no multipliers give a better bound; infinite without cuts
  };
  /// @param largest_nu prices of omega beyond it are not considered (nor bounded by `value`).
  Maximum maximise(double largest_nu) const;
  /// Where devices are priced as well: within a trust region, `radius` around a point's prices.
  struct PricedMaximum {
    PricePoint at;
    double value = kInfinity;
  };
  PricedMaximum maximise_near(const PricePoint& center, double radius, double largest_nu) const;
  /// A point between two, in the coordinates in which the bound is concave.
  Multipliers between(const Multipliers& from, const Multipliers& to, double fraction) const;
  PricePoint between(const PricePoint& from, const PricePoint& to, double fraction) const;

 private:
  // Coordinates: price for averages of Tp per kind, of Td per kind, lambda, nu; each scaled.
  std::vector<double> coordinates(const Multipliers& at) const;
  Multipliers multipliers(const std::vector<double>& x) const;
  // Prices of devices from their least ones on, over the ranges; both empty where they have none.
  Maximum solve(const std::vector<double>& least_price, const std::vector<double>& ranges,
                double largest_nu, std::vector<double>& price) const;

  const SearchSpace& space_;
  const Pair& pair_;
  Box box_;
  std::size_t kinds_ = 0;
  double decode_scale_ = 0, nu_scale_ = 1;
  struct Plane {
    double constant = 0;
    std::vector<double> slope;
    std::vector<double> devices;  ///< [kind] used above those that there are
  };
  std::vector<Plane> planes_;
};

}  // namespace tessera::solver::exact
